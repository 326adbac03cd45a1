#!/usr/bin/env bash
# Makes the recordings that are kept here. They were made once, by the last reenact that wrote format 1;
# what a later one records is not the same.
set -euo pipefail
reenact=$1 out=$2
programs=$(cd "$(dirname "$0")/../programs" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

record() { name=$1; shift; "$reenact" record --quiet --output "$out/$name.rnt" "$@"; }

rows='create table t(a integer primary key, b);
      with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
      insert into t select i, hex(i * 7919 % 65536) from n;
      update t set b = b || 1 where a % 10 = 0; delete from t where a % 7 = 0; vacuum;'
record sqlite -- sqlite3 t.db "$rows"
record pipeline -- sh -c "seq 3000 | sort -n | uniq -c | wc -l; (exit 3); kill -9 \$\$" || true
record threads --data hash -- python3 -ISc 'import os, signal, socket, subprocess, threading
def work():
    for _ in range(100): os.getppid()
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
signal.signal(signal.SIGUSR1, lambda *_: None); os.kill(os.getpid(), signal.SIGUSR1)
one, two = socket.socketpair(); one.sendall(b"hello" * 30); two.recv(99)
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname()); served, _ = listener.accept()
client.sendall(b"x" * 700); served.recv(4096)
subprocess.run(["/bin/true"], check=True)'
mkdir source; seq 9000 > source/numbers; ln -s numbers source/link; truncate -s 1M source/sparse
record git --data full -- sh -c 'git init -q r && cp -r source r && cd r && git add . &&
    git -c user.name=a -c user.email=b commit -qm first && git mv source moved &&
    git -c user.name=a -c user.email=b commit -qm second && git log --stat && git gc -q' > log
record files --snapshot -- sh -c 'cp -a source copied; tar cf all.tar source; cp --reflink=auto all.tar two.tar
    dd if=/dev/zero of=source/sparse bs=4k seek=3 count=2 conv=notrunc,fsync 2> errors
    mv copied moved; rm -r moved; mkfifo p; (echo through > p &); cat p > q; chmod 600 all.tar; touch -d @0 two.tar'
record hashes --data hash --max-data 64 -- sqlite3 u.db "$rows"
record limited --max-size 60K -- seq 100000 > numbers || true
chmod 755 "$place"
for name in io_uring linux_aio async_io own_mounts own_links messages epoll_and_friends ioctls \
    fcntl_calls links_and_cwd directories stat_family vectors xattrs withheld_files unnamed_files \
    identity_calls filter_verdicts namespaces system_v_ipc traced_children uses_gs int80 waits \
    file_to_file pipes_and_splice mappings clones killed_by_signal changes_user; do
    [ -e "$programs/$name.c" ] || continue
    # shellcheck disable=SC2046 # several flags
    cc -std=gnu17 -O2 -o "$name" "$programs/$name.c" $(sed -n 's/^\/\/ flags: //p' "$programs/$name.c")
    mkdir "work-$name"
    (cd "work-$name" && record "$name" -- "../$name" 7 > /dev/null 2>&1) || echo "$name: exit $?"
done

# One that writes over the memory that it shares with the recorder, and traces that are damaged.
cc -std=gnu17 -O2 -o silence "$programs/../attacks/silence.c"
record silence -- ./silence wipe > /dev/null 2>&1 || echo "silence: exit $?"
head -c "$(($(stat -c %s "$out/git.rnt") * 7 / 10))" "$out/git.rnt" > "$out/cut_off.rnt"
cp "$out/sqlite.rnt" "$out/damaged.rnt"
for at in 9000 21000 33000; do
    printf 'damage' | dd of="$out/damaged.rnt" bs=1 seek=$at conv=notrunc status=none
done
