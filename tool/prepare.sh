#!/bin/sh
# Gives a machine what the tests can use and the README's requirements do not include: packages, and users to be. As root, and
# then only what is missing; otherwise, and for what cannot be had, it says so by name and the tests concerned are skipped.
#
#   lotuser    an ordinary user with a range of subordinate ids
#   lotsingle  one without

set -u

say() {
  printf 'prepare: %s\n' "$1" >&2
}

missing=
need() { # package, then a test of whether it is needed
  package=$1
  shift
  "$@" >/dev/null 2>&1 || missing="$missing $package"
}
links_static() {
  printf 'int main(void) { return 0; }\n' | "$1" -static -x c -o /dev/null -
}

need git command -v git
need make command -v make
need python3 command -v python3
need 'gcc libc6-dev' links_static cc
need bubblewrap command -v bwrap
need uidmap command -v newuidmap
need util-linux command -v setpriv
need passwd command -v useradd
[ "$(uname -m)" != x86_64 ] || need 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross' links_static aarch64-linux-gnu-gcc

if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ]; then
    say "not root, so not installed:$missing"
  elif ! command -v apt-get >/dev/null 2>&1; then
    say "no apt-get here, so not installed:$missing"
  else
    say "installing$missing"
    log=$(mktemp)
    # shellcheck disable=SC2086
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } </dev/null >"$log" 2>&1; then
      tail -n 5 "$log" >&2
      say "could not be installed:$missing"
    fi
    rm -f "$log"
  fi
fi

[ "$(id -u)" = 0 ] || exit 0
if ! command -v useradd >/dev/null 2>&1; then
  say 'no useradd here, so no test users'
  exit 0
fi
if ! id lotuser >/dev/null 2>&1; then
  say 'creating the user lotuser'
  useradd --create-home --shell /bin/sh lotuser || say 'could not create lotuser'
fi
# Distributions differ in whether useradd gives a range. Ours would lie above theirs and below the ids that sandlot uses as root.
for kind in uid gid; do
  [ ! -e /etc/login.defs ] || grep -q '^lotuser:' "/etc/sub$kind" 2>/dev/null && continue
  usermod "--add-sub${kind}s" 200000000-200065535 lotuser 2>/dev/null || say "could not give lotuser subordinate ${kind}s"
done
if ! id lotsingle >/dev/null 2>&1; then
  say 'creating the user lotsingle'
  # A system user: those get no range.
  useradd --system --create-home --shell /bin/sh lotsingle || say 'could not create lotsingle'
fi
exit 0
