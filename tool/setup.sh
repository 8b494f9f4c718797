#!/bin/sh
# Sets a clone up: setup.sh run|all [CLONE]. Prints the directory to run from.
#
#   run   the Node runtime and the libraries that src/ imports; what ./sandlot needs
#   all   also the tools that check and test
#
# Everything is installed into CLONE/.setup.XXXXXX and moved into place when whole, the stamp last: an interrupted set-up leaves
# nothing that counts. One set-up at a time holds a lock on the clone. A clone that is not the caller's is not written to: its
# sources are copied to the caller's own cache, by content, and run from there.
#
# The clone's node_modules/.sandlot-WHAT is a copy of the lock file it was made from, mtime included; see ./sandlot.

set -u
umask 022
what=${1:-run}
clone=${2:-.}
temporary=
marker=
held=
npm=

quit() { # message, hint
  printf 'sandlot: %s\n  hint: %s\n' "$1" "$2" >&2
  exit 125
}

say() {
  printf 'sandlot: %s\n' "$1" >&2
}

clean() {
  [ -z "$npm" ] || kill "$npm" 2>/dev/null
  for each in "$temporary" "$marker" "$held"; do
    [ -z "$each" ] || rm -rf -- "$each"
  done
}

is_ready() { # root
  [ -x "$1/node_modules/.bin/node" ] && [ -e "$1/node_modules/.sandlot-$what" ] &&
    ! [ "$1/package-lock.json" -nt "$1/node_modules/.sandlot-$what" ] && ! [ "$1/node_modules/.sandlot-$what" -nt "$1/package-lock.json" ]
}

# A lock on the directory itself leaves no file behind and ends with its holder. Without flock(1): a directory that names its holder.
lock() { # root
  if command -v flock >/dev/null 2>&1; then
    exec 9<"$1"
    flock -n 9 2>/dev/null && return
    say "waiting for another first use of $1 to finish"
    flock 9 || quit "cannot lock $1" 'is it on a file system without locks? clone to a local disk'
    return
  fi
  waited=0
  until mkdir "$1/.setup-lock" 2>/dev/null; do
    holder=$(cat "$1/.setup-lock/pid" 2>/dev/null) || holder=
    if { [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; } || { [ -z "$holder" ] && [ $waited -gt 10 ]; }; then
      # Several may find the holder dead. Renaming succeeds once, and what turns out to be a new holder's goes back.
      if mv "$1/.setup-lock" "$1/.setup-lock.$$" 2>/dev/null; then
        if [ "$(cat "$1/.setup-lock.$$/pid" 2>/dev/null)" = "$holder" ]; then rm -rf -- "$1/.setup-lock.$$"; else mv "$1/.setup-lock.$$" "$1/.setup-lock"; fi
      fi
      continue
    fi
    [ $waited -gt 0 ] || say "waiting for another first use of $1 to finish"
    waited=$((waited + 1))
    sleep 1
  done
  held=$1/.setup-lock
  echo $$ >"$held/pid"
}

check_tools() {
  command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 ||
    quit 'npm is not installed, and first use needs it to fetch the Node runtime' 'install it (Debian: apt install npm) and run the same again'
  node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' ||
    quit "first use needs Node 18 or newer to run npm, this one is $(node --version)" 'install a newer Node with npm; it is only used to fetch the pinned one'
}

# npm may come to the end of a full disk without a word, and what it installed is cut off.
has_space() {
  head -c 1000000 /dev/zero >"$temporary/probe" 2>/dev/null && rm "$temporary/probe"
}

explain() { # log of npm
  if grep -q ENOSPC "$1" || ! has_space; then
    quit "no space left to set up in ${1%/*/*}" 'the runtime and the libraries take 250 MB, with the tools for tests 350 MB'
  elif grep -Eq 'ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED' "$1"; then
    quit 'the npm registry cannot be reached, and first use needs it' 'check the network, and the registry and proxy that npm uses (npm config get registry); then run the same again'
  elif grep -Eq 'SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|CERT_' "$1"; then
    quit 'npm does not trust the certificate of its registry' 'name your certificates to npm: NODE_EXTRA_CA_CERTS=FILE, or npm config set cafile FILE'
  elif grep -Eq 'EINTEGRITY' "$1"; then
    quit 'a package from the npm registry is not the one in package-lock.json' 'run npm cache clean --force and try again; if it stays, the registry or a proxy alters packages'
  elif grep -Eq 'EACCES|EPERM|EROFS' "$1"; then
    sed -n 's/^npm [^ ]* *path /  npm: /p' "$1" | head -n 1 >&2
    quit 'npm may not write where it wants to' 'a cache of npm owned by someone else? (npm config get cache)'
  fi
  sed 's/^/  npm: /' "$1" | tail -n 30 >&2
  quit 'npm could not install the runtime and the libraries' 'see above'
}

# Installs into $temporary. The caller's npm set-up (registry, proxy, certificates) is used as it is; what could make it install less, or elsewhere, is not.
install() { # root
  mkdir "$temporary/from" && cp -p "$1/package.json" "$1/package-lock.json" "$temporary/from/" &&
    node "$1/tool/lockfile.js" reduce "$what" "$arch" "$temporary/from" "$temporary" || return
  [ ! -e "$1/.npmrc" ] || cp "$1/.npmrc" "$temporary/.npmrc"
  unset NODE_ENV npm_config_global npm_config_local_prefix npm_config_omit npm_config_include npm_config_only npm_config_production
  # npm wants a cache; where one cannot be made (HOME is not ours, or is no directory) it goes with the rest.
  npm_cache=$(cd "$temporary" && npm config get cache 2>/dev/null) || npm_cache=
  [ -z "$npm_cache" ] || [ -d "$npm_cache" ] || mkdir -p "$npm_cache" 2>/dev/null
  if [ -O "$npm_cache" ] && [ -w "$npm_cache" ]; then set --; else set -- "--cache=$temporary/cache"; fi
  # In the background, so that a signal ends npm too instead of waiting for it.
  (
    cd "$temporary" &&
      exec npm ci "$@" --prefix=. --include=dev --include=optional --ignore-scripts --prefer-offline --package-lock=true --engine-strict=false \
        --dry-run=false --bin-links=true --no-audit --no-fund --no-progress --no-update-notifier \
        --fetch-retries=2 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 --loglevel=error
  ) >"$temporary/log" 2>&1 9>&- &
  npm=$!
  wait "$npm"
  status=$?
  npm=
  [ $status = 0 ] && has_space || return
  "$temporary/node_modules/.bin/node" --version >/dev/null 2>>"$temporary/log" ||
    quit "the fetched Node runtime does not start on this machine" 'it needs Linux with glibc 2.28 or newer; musl (Alpine) is not supported'
}

set_up() { # root: owned by the caller
  is_ready "$1" && return
  check_tools
  lock "$1"
  is_ready "$1" && return
  rm -rf -- "$1"/.setup.??????
  if node "$1/tool/lockfile.js" complete "$what" "$arch" "$1" 2>/dev/null && "$1/node_modules/.bin/node" --version >/dev/null 2>&1; then
    stamp "$1" "$1/package-lock.json"
    return
  fi
  temporary=$(mktemp -d "$1/.setup.XXXXXX" 2>/dev/null) || quit "cannot write in $1" 'is the disk full?'
  : >"$temporary/log"
  case $what in
    run) say 'first use: fetching the Node runtime and libraries (60 MB) ...' ;;
    *) say 'fetching the Node runtime, libraries and the tools that check and test (120 MB) ...' ;;
  esac
  install "$1" || explain "$temporary/log"
  if [ -e "$1/node_modules" ]; then
    mv "$1/node_modules" "$temporary/old" || quit "cannot replace $1/node_modules" 'remove it by hand and run the same again'
  fi
  mv "$temporary/node_modules" "$1/node_modules" && stamp "$1" "$temporary/from/package-lock.json" || quit "cannot write in $1" 'is the disk full?'
  rm -rf -- "$temporary"
  temporary=
  say 'set up.'
}

stamp() { # root, lock file
  for each in run "$what"; do
    cp -p "$2" "$1/node_modules/.stamp" && mv "$1/node_modules/.stamp" "$1/node_modules/.sandlot-$each" || return
  done
}

# The caller's own copy of a clone that is somebody else's, or on a disk that cannot be written.
#   CACHE/checkout/at/PATH/.copy   which copy belongs to the clone at PATH; as old as the beginning of copying
#   CACHE/checkout/HASH/           the copy, a clone like any other
use_copy() {
  [ "$what" = run ] || quit "$clone is not yours to write to, and tests and checks write" 'make a clone of your own: git clone PATH'
  case ${XDG_CACHE_HOME-} in
    /*) cache=$XDG_CACHE_HOME/sandlot ;;
    *) cache=${HOME-}/.cache/sandlot ;;
  esac
  [ "$cache" != /.cache/sandlot ] || quit "$clone is not yours to write to, and there is no HOME to keep a copy in" 'set HOME or XDG_CACHE_HOME to a directory of your own'
  [ -d "$cache" ] || (umask 077 && mkdir -p "$cache") 2>/dev/null
  [ -O "$cache" ] && [ -w "$cache" ] && [ ! -h "$cache" ] ||
    quit "$clone is not yours to write to, and $cache, where a copy would be kept, is not either" 'set HOME or XDG_CACHE_HOME to a directory of your own'
  chmod 700 "$cache"

  copies=$cache/checkout
  at=$copies/at$clone
  sources='package.json package-lock.json sandlot src native tool'
  if [ -f "$at/.copy" ] && read -r key <"$at/.copy" && is_ready "$copies/$key" &&
    [ -z "$(cd "$clone" && find $sources -newer "$at/.copy" 2>&1)" ]; then
    printf '%s\n' "$copies/$key"
    return
  fi

  mkdir -p "$at" || quit "cannot write in $cache" 'is the disk full?'
  marker=$(mktemp -d "$copies/.new.XXXXXX") && : >"$marker/began" || quit "cannot write in $cache" 'is the disk full?'
  mkdir "$marker/clone" && (cd "$clone" && cp -R $sources "$marker/clone/") && chmod -R u+rwX "$marker/clone" || quit "cannot copy $clone to $cache" 'is the disk full, or a file in it not readable?'
  key=$(cd "$marker/clone" && find . -type f | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum) || quit "cannot read $marker" 'is the disk full?'
  key=${key%% *}
  if ! [ -e "$copies/$key" ]; then
    mv "$marker/clone" "$copies/$key" 2>/dev/null || [ -e "$copies/$key" ] || quit "cannot write in $cache" 'is the disk full?'
    share "$copies/$key"
  fi
  set_up "$copies/$key"
  printf '%s\n' "$key" >"$marker/copy" && touch -r "$marker/began" "$marker/copy" && mv "$marker/copy" "$at/.copy" || quit "cannot write in $cache" 'is the disk full?'
  prune
  printf '%s\n' "$copies/$key"
}

# Hard links to what another copy with the same lock file has installed: 220 MB and ten seconds less.
share() { # new copy
  for other in "$copies"/*; do
    [ "$other" != "$1" ] && [ -e "$other/node_modules/.sandlot-run" ] && cmp -s "$other/package-lock.json" "$1/package-lock.json" || continue
    cp -al "$other/node_modules" "$marker/node_modules" 2>/dev/null && mv "$marker/node_modules" "$1/node_modules" 2>/dev/null && return
  done
}

# Copies that belong to no clone any more, a day old: somebody may still be running from a younger one.
prune() {
  for copy in "$copies"/* "$copies"/.new.*; do
    [ "$copy" = "$copies/at" ] || grep -rqsF -- "${copy##*/}" "$copies/at" || find "$copy" -maxdepth 0 -mtime +0 -exec rm -rf -- {} + 2>/dev/null
  done
}

trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

case $(uname -s)/$(uname -m) in
  Linux/x86_64) arch=x64 ;;
  Linux/aarch64) arch=arm64 ;;
  *) quit "sandlot runs on Linux on x86-64 and arm64, this is $(uname -s) on $(uname -m)" 'use such a machine, or a virtual one' ;;
esac
clone=$(CDPATH='' cd -P -- "$clone" && pwd) || quit "cannot enter $clone" 'is it readable?'

if [ -O "$clone" ] && [ -w "$clone" ] && { [ ! -e "$clone/node_modules" ] || [ -O "$clone/node_modules" ]; }; then
  set_up "$clone"
  printf '%s\n' "$clone"
else
  use_copy
fi
