#!/usr/bin/env bash
# Installs what is missing, on a Debian as root: install.sh COMMAND=PACKAGES...
# Otherwise it says what to install.
set -euo pipefail

missing=()
for need in "$@"; do
    command -v "${need%%=*}" > /dev/null || missing+=(${need#*=})
done
[ "${#missing[@]}" != 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "not installed: ${missing[*]}; install it (sudo apt-get install ${missing[*]}) and try again" >&2
    exit 1
fi
apt-get update > /dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" > /dev/null
