#!/bin/sh
# Runs a command with $1 bytes of memory, page cache included, in a control group of its own; for
# `cargo xtask bench record`. Only root may.
set -eu
limit=$1
shift
name=reenact-bench-$$
if [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/$name
    mkdir "$group"
    echo "$limit" > "$group/memory.limit_in_bytes"
else
    group=/sys/fs/cgroup/$name
    mkdir "$group"
    echo "$limit" > "$group/memory.max"
fi
sh -c 'echo $$ > "$0/cgroup.procs"; exec "$@"' "$group" "$@"
rmdir "$group"
