#!/bin/sh
# npm test [-- FILE ...]: the whole suite as the caller and, when that is root, again as an ordinary user on a copy of the tree, and the
# contract once more as a user without subordinate ids. Ends with the sum of all parts, as Node's test runner prints it.
#
#   SANDLOT_TEST_AS=self   only as the caller, without installing packages or creating users
#   SANDLOT_SLOW_TESTS=1   also what takes minutes

set -u
cd "$(dirname "$0")/.." || exit
sh tool/setup.sh all >/dev/null || exit

here=$PWD
results=$(mktemp -d)
copy=
trap 'rm -rf -- "$results" $copy' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
failed=0

section() {
  printf '\n──── %s ────\n\n' "$1"
}

# Appends "tests suites passed failed cancelled skipped todo duration_ms" to $results/PART.
suite='exec node_modules/.bin/node --test --test-timeout=240000 --test-reporter=spec --test-reporter-destination=stdout --test-reporter=./tool/counts.js --test-reporter-destination="$SANDLOT_COUNTS" "$@"'

run_self() { # files
  SANDLOT_COUNTS=$results/self sh -c "$suite" sh "$@" </dev/null || failed=1
}

run_as() { # user, files
  user=$1
  shift
  : >"$results/$user"
  chmod 755 "$results"
  chown "$user" "$results/$user"
  home=$(getent passwd "$user" | cut -d: -f6)
  copy=$(mktemp -d "$home/sandlot.XXXXXX") || {
    failed=1
    return
  }
  for each in "$here"/* "$here"/.[!.]*; do
    case ${each##*/} in
      .git | dist | .setup*) ;;
      *) cp -a "$each" "$copy/" ;;
    esac
  done
  chown -R "$user:" "$copy"
  # What is set on purpose for the tests, and how this machine reaches its registry.
  set -- "$@"
  keep=
  for name in CI NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy npm_config_registry npm_config_cafile SANDLOT_SLOW_TESTS; do
    if eval "[ -n \"\${$name-}\" ]"; then keep="$keep $name"; fi
  done
  (
    cd "$copy" || exit
    # setpriv keeps nothing of ours with --reset-env; the names kept are put in again by the shell below.
    for name in $keep; do
      eval "value=\$$name"
      set -- "$name=$value" "$@"
    done
    set -- "SANDLOT_COUNTS=$results/$user" "$@"
    exec setpriv --reuid="$user" --regid="$user" --init-groups --reset-env -- env -- "$@"
  ) </dev/null || failed=1
  rm -rf -- "$copy"
  copy=
}

total() {
  awk '
    { for (i = 1; i <= 8; i++) sum[i] += $i }
    END {
      split("tests suites pass fail cancelled skipped todo duration_ms", name, " ")
      for (i = 1; i <= 8; i++) printf "ℹ %s %s\n", name[i], sum[i] + 0
    }' "$results"/*
}

contract='test/contract/**/*.test.ts'
[ $# -eq 0 ] || contract=
[ $# -gt 0 ] || set -- 'test/**/*.test.ts'

[ "${SANDLOT_TEST_AS-}" = self ] || sh tool/prepare.sh
section "as $(id -un)"
run_self "$@"

if [ "$(id -u)" = 0 ] && [ "${SANDLOT_TEST_AS-}" != self ]; then
  section 'as lotuser, an ordinary user'
  if id lotuser >/dev/null 2>&1 && command -v setpriv >/dev/null 2>&1; then
    run_as lotuser sh -c "$suite" sh "$@"
  else
    echo 'skipped: there is no such user, or no setpriv'
  fi
  if [ -n "$contract" ]; then
    section 'as lotsingle, a user without subordinate ids: the contract only'
    if id lotsingle >/dev/null 2>&1 && command -v setpriv >/dev/null 2>&1; then
      run_as lotsingle sh -c "$suite" sh "$contract"
    else
      echo 'skipped: there is no such user, or no setpriv'
    fi
  fi
fi

section 'all parts'
for part in "$results"/*; do
  [ -s "$part" ] || {
    printf 'no result of the part %s\n' "${part##*/}"
    failed=1
  }
done
total
exit $failed
