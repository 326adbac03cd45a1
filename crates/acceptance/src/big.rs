//! Big programs to be recorded and replayed: shell scripts, each run in an empty directory.
//!
//! The files in `../given` are made before the recording.

use std::path::Path;

use crate::place::Who;
use crate::trials;

/// A big program.
#[derive(Debug)]
pub struct Big {
    /// Name of the program.
    pub name: &'static str,
    /// Programs or paths that it needs.
    pub needs: &'static [&'static str],
    /// The only user to run it as, if not both.
    pub only: Option<Who>,
    /// Gaps allowed in its trace.
    pub gaps: &'static [&'static str],
    /// A known defect of the replay that shows here: reason and symptoms, as in `tests/wild`.
    pub known: Option<(&'static str, &'static str)>,
    /// Script that makes `../given`.
    pub given: &'static str,
    /// Script to be recorded.
    pub script: &'static str,
}

impl Big {
    /// Returns what is missing to run it as this user, if anything.
    pub fn missing(&self, who: Who) -> Option<&'static str> {
        if let Some(only) = self.only.filter(|only| *only != who) {
            return Some(only.name());
        }
        let absent = |need: &&&str| match need.starts_with('/') {
            true => !Path::new(**need).exists(),
            false => trials::missing(&[**need]).is_some(),
        };
        self.needs.iter().find(absent).copied()
    }
}

/// Defaults of a program.
const PLAIN: Big =
    Big { name: "", needs: &[], only: None, gaps: &[], known: None, given: "", script: "" };

/// Makes a tree with links, modes, times, holes and unusual names.
const TREE: &str = r#"
    mkdir -p tree/empty tree/deep/er/still 'tree/with blank'
    for i in $(seq 200); do seq $i 300 > tree/deep/f$i; done
    ln tree/deep/f1 tree/hard; ln -s deep/f2 tree/soft; ln -s nowhere tree/dangling
    chmod 600 tree/deep/f3; chmod 755 tree/deep/f4; touch -d 2001-02-03 tree/deep/f5
    truncate -s 1M tree/hole; printf end >> tree/hole; mkfifo tree/fifo
    head -c 300000 /dev/zero | tr '\0' x > 'tree/with blank/big'
"#;

/// Makes a root directory with a few programs.
const CONTAINER: &str = r#"
    mkdir -p root/bin root/proc root/dev root/tmp root/etc root/work
    for p in /bin/dash /bin/ls /bin/cat /bin/mkdir; do
        cp $p root/bin
        for l in $(ldd $p | grep -o '/[^ ]*'); do
            mkdir -p root$(dirname $l); cp -L $l root$l
        done
    done
    echo inside > root/etc/where
"#;

/// All big programs.
pub const PROGRAMS: &[Big] = &[
    // A collector whose heap is mapped three times, and moved while the program runs.
    Big {
        name: "jvm_zgc",
        needs: &["javac", "java"],
        given: r#"
            cat > Garbage.java <<'END'
            public class Garbage {
                static long work(int seed) {
                    java.util.Random random = new java.util.Random(seed);
                    byte[][] kept = new byte[2000][];
                    long sum = 0;
                    for (int i = 0; i < 60000; i++) {
                        int at = random.nextInt(kept.length);
                        if (kept[at] != null) for (byte b : kept[at]) sum += b;
                        kept[at] = new byte[100 + random.nextInt(4000)];
                        java.util.Arrays.fill(kept[at], (byte) i);
                    }
                    return sum;
                }
                public static void main(String[] args) throws Exception {
                    long[] sums = new long[3];
                    Thread[] threads = new Thread[sums.length];
                    for (int i = 0; i < threads.length; i++) {
                        int number = i;
                        threads[i] = new Thread(() -> sums[number] = work(number));
                        threads[i].start();
                    }
                    for (Thread thread : threads) thread.join();
                    System.gc();
                    for (long sum : sums) System.out.println(sum);
                }
            }
END
            javac Garbage.java
            java -XX:+UseZGC -Xmx128m -cp . Garbage > expected
        "#,
        script: r#"
            java -XX:+UseZGC -Xmx128m -cp ../given Garbage > sums
            cmp sums ../given/expected
        "#,
        ..PLAIN
    },
    Big {
        name: "go_build",
        needs: &["/usr/local/go/bin/go"],
        given: r#"
            printf 'module example.org/m\ngo 1.18\n' > go.mod
            (echo 'package main'; echo 'import ('
             for i in $(seq 60); do echo "\"example.org/m/p$i\""; done; echo ')'
             echo 'func main() {'; for i in $(seq 60); do echo "println(p$i.F($i))"; done
             echo '}') > main.go
            for i in $(seq 60); do
                mkdir p$i; echo "package p$i; func F(x int) int { return x * $i }" > p$i/p.go
            done
        "#,
        script: "
            cp -r ../given/. .; export GOCACHE=$PWD/cache GOPATH=$PWD/path GOTOOLCHAIN=local
            export GOTELEMETRY=off GOFLAGS=-mod=mod TMPDIR=$PWD/tmp
            mkdir tmp
            /usr/local/go/bin/go build -p 4 -o program . && ./program 2> printed
        ",
        ..PLAIN
    },
    Big {
        name: "dpkg_install",
        needs: &["dpkg", "dpkg-deb"],
        given: r#"
            mkdir -p package/DEBIAN package/usr/share/wild package/etc
            printf 'Package: wild\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\n' \
                > package/DEBIAN/control
            printf 'Description: for a test\n' >> package/DEBIAN/control
            echo /etc/wild.conf > package/DEBIAN/conffiles; echo set > package/etc/wild.conf
            for i in $(seq 50); do seq $i > package/usr/share/wild/f$i; done
            ln -s f1 package/usr/share/wild/link
            dpkg-deb --root-owner-group --build package wild.deb
        "#,
        script: "
            mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates root/var/log
            touch root/var/lib/dpkg/status
            dpkg --force-not-root --root=$PWD/root -i ../given/wild.deb
            dpkg --root=$PWD/root -s wild; dpkg --force-not-root --root=$PWD/root -r wild
        ",
        ..PLAIN
    },
    Big {
        name: "chromium",
        needs: &["chromium"],
        only: Some(Who::User),
        // Its sandboxed processes cannot be followed.
        gaps: &["not-followed"],
        known: Some((
            "replay sometimes: an open that takes long has its number before others that had it",
            "EBADF instead of success; another result; st_size",
        )),
        given: r"
            echo '<p id=a>before</p><script>a.textContent = 6 * 7</script>' > page.html
        ",
        script: "
            export HOME=$PWD TMPDIR=$PWD XDG_CONFIG_HOME=$PWD XDG_CACHE_HOME=$PWD
            chromium --headless --disable-gpu --user-data-dir=$PWD/profile --dump-dom \
                file://$(realpath ../given)/page.html > dom 2> said
            grep -q '>42<' dom
        ",
    },
    Big {
        name: "mariadb",
        needs: &["mariadbd", "mariadb-install-db"],
        only: Some(Who::User),
        script: r#"
            mkdir tmp
            set -- --no-defaults --datadir=$PWD/data --innodb-use-native-aio=0 --tmpdir=$PWD/tmp
            mariadb-install-db "$@" --auth-root-authentication-method=normal --skip-test-db > said
            printf 'CREATE DATABASE w;\nCREATE TABLE w.t(id INT PRIMARY KEY, n INT);\n' > work.sql
            for i in $(seq 200); do echo "INSERT INTO w.t VALUES ($i, $i * $i);"; done >> work.sql
            mariadbd "$@" --bootstrap < work.sql >> said 2>&1
        "#,
        ..PLAIN
    },
    Big {
        name: "npm_install",
        needs: &["npm"],
        given: r#"
            mkdir package; cd package
            echo '{"name": "wild", "version": "1.0.0", "main": "index.js"}' > package.json
            for i in $(seq 30); do echo "exports.f$i = $i" > f$i.js; done
            echo 'module.exports = 42' > index.js
            HOME=$PWD npm_config_cache=$PWD/../cache npm pack --silent --pack-destination ..
        "#,
        script: r#"
            export HOME=$PWD npm_config_cache=$PWD/cache npm_config_update_notifier=false
            echo '{"name": "user", "version": "1.0.0"}' > package.json
            npm install --offline --no-audit --no-fund --silent ../given/wild-1.0.0.tgz
            node -e 'console.log(require("wild"))' > printed; grep -q 42 printed
        "#,
        ..PLAIN
    },
    Big {
        name: "container",
        needs: &["bwrap", "/bin/dash"],
        given: CONTAINER,
        script: "
            mkdir out
            bwrap --unshare-all --die-with-parent --ro-bind ../given/root / --proc /proc --dev /dev \
                --tmpfs /tmp --bind out /work --chdir /work /bin/dash -c \
                'cat /etc/where > a; echo $$ > pid; ls / > b; /bin/mkdir /tmp/d; ls /tmp > c'
            grep -q inside out/a
        ",
        ..PLAIN
    },
    Big {
        name: "runc",
        needs: &["runc", "/bin/dash"],
        only: Some(Who::Root),
        given: CONTAINER,
        script: r#"
            cp -r ../given/root rootfs; mkdir rootfs/sys; runc spec
            sed -i 's/"terminal": true/"terminal": false/; s/"readonly": true/"readonly": false/
                s|"sh"|"/bin/dash", "-c", "cat /etc/where > /tmp/x; cat /tmp/x; ls /"|' config.json
            runc --root $PWD/state run reenact-$$ < /dev/null > out
            grep -q inside out
        "#,
        ..PLAIN
    },
    Big {
        name: "cp",
        given: TREE,
        script: "cp -a ../given/tree copy; cp -a copy again; rm -r copy; ls -lR again > list",
        ..PLAIN
    },
    Big {
        name: "tar",
        given: TREE,
        script: "
            tar -C ../given -czf tree.tar.gz tree; tar -xpzf tree.tar.gz
            tar -C ../given --sparse -cf sparse.tar tree; tar -df sparse.tar -C ../given
        ",
        ..PLAIN
    },
    Big {
        name: "rsync",
        needs: &["rsync"],
        given: TREE,
        script: "
            rsync -aH ../given/tree/ copy; echo more >> copy/deep/f7; rm copy/deep/f8
            rsync -aHc --delete ../given/tree/ copy
        ",
        ..PLAIN
    },
    Big {
        name: "git_clone",
        needs: &["git"],
        given: r#"
            export HOME=$PWD; git init -q -b main source; cd source
            git config user.name A; git config user.email a@example.org
            for i in $(seq 20); do
                mkdir d$i; seq $((i * 100)) > d$i/f; git add .; git commit -q -m $i
            done
        "#,
        script: "
            export HOME=$PWD; git clone -q ../given/source copy
            git clone -q --no-hardlinks --bare copy bare; git -C copy log --stat > log
        ",
        ..PLAIN
    },
    Big {
        name: "pip_install",
        needs: &["/usr/bin/pip3"],
        given: r#"
            cat > make.py <<'END'
import zipfile
files = {f"wild/m{i}.py": f"VALUE = {i}\n" for i in range(40)}
files["wild/__init__.py"] = "ANSWER = 42\n"
info = "wild-1.0.dist-info/"
files[info + "METADATA"] = "Metadata-Version: 2.1\nName: wild\nVersion: 1.0\n"
files[info + "WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
files[info + "RECORD"] = "".join(f"{name},,\n" for name in [*files, info + "RECORD"])
with zipfile.ZipFile("wild-1.0-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
END
            /usr/bin/python3 make.py
        "#,
        script: "
            export HOME=$PWD TMPDIR=$PWD
            /usr/bin/python3 -m pip install --quiet --no-index --no-cache-dir --no-deps \
                --disable-pip-version-check --target=site ../given/wild-1.0-py3-none-any.whl
            PYTHONPATH=site /usr/bin/python3 -c 'import wild; print(wild.ANSWER)' > printed
        ",
        ..PLAIN
    },
];
