#!/bin/sh
# Makes dist/, what npm publishes beside native/: JavaScript with types and, for people without a compiler, the native
# program. It is put together in a directory of its own and moved into place when whole.

set -eu
cd "$(dirname "$0")/.."
sh tool/setup.sh all >/dev/null

out=$(mktemp -d ./.setup.XXXXXX)
trap 'rm -rf "$out"' EXIT
node_modules/.bin/node node_modules/typescript/bin/tsc -p tsconfig.build.json --outDir "$out/dist" >&2
chmod 755 "$out/dist/cli/sandlot.js"

mkdir "$out/dist/native"
flags=$(node_modules/.bin/node --input-type=module -e "import { nativeFlags } from './src/host/native.ts'; console.log(nativeFlags.join(' '))")
native() { # architecture as Node says it, compiler, its strip
  if ! command -v "$2" >/dev/null 2>&1; then
    printf 'build: no %s, so no native program for %s\n' "$2" "$1" >&2
    return
  fi
  # shellcheck disable=SC2086
  "$2" $flags -Werror -o "$out/dist/native/sandlot-linux-$1" native/*.c >&2
  "$3" "$out/dist/native/sandlot-linux-$1"
}
case $(uname -m) in
  x86_64)
    native x64 cc strip
    native arm64 aarch64-linux-gnu-gcc aarch64-linux-gnu-strip
    ;;
  aarch64)
    native arm64 cc strip
    native x64 x86_64-linux-gnu-gcc x86_64-linux-gnu-strip
    ;;
esac

rm -rf dist
mv "$out/dist" dist
