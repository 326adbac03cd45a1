//! Programs with threads, which are recorded with `--serialize` and executed again.

/// Name, programs that are needed, and the script.
pub const WORKS: &[(&str, &[&str], &str)] = &[
    (
        "python_threads",
        &["python3"],
        "exec python3 -c 'import threading, queue, time, random\n\
      q = queue.Queue()\n\
      def work(n):\n  for i in range(50): q.put((n, i, random.random())); time.sleep(random.random() / 10000)\n\
      all = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n\
      [t.start() for t in all]; [t.join() for t in all]\n\
      while not q.empty(): print(q.get())'",
    ),
    (
        // The agent looks at each file before it is made.
        "python_threads_that_make_files",
        &["python3"],
        "exec python3 -c 'import threading, os\n\
      def work(n):\n  for i in range(25):\n    with open(f\"{n}.{i}\", \"w\") as file: file.write(\"x\" * i)\n    \
      os.rename(f\"{n}.{i}\", f\"{n}-{i}\")\n\
      all = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n\
      [t.start() for t in all]; [t.join() for t in all]\n\
      print(sorted(os.listdir()))'",
    ),
    ("node", &["node"], "exec node -e 'console.log(\"hello\", Math.random(), Date.now())'"),
    ("java", &["java"], "exec java -Xshare:auto -XshowSettings:properties -version 2>&1"),
    // For the long tier.
    (
        "javac",
        &["java", "javac"],
        "printf 'public class Hello { public static void main(String[] a) { \
         System.out.println(System.nanoTime() + \" \" + new Object().hashCode()); } }' > Hello.java; \
         javac Hello.java && exec java Hello",
    ),
    (
        "xz",
        &["xz"],
        "head -c 3000000 /dev/urandom > in; xz -T2 -0 --block-size=500000 -c in | sha256sum",
    ),
];
