# A compiler that loads its classes.
# first: computes
# never: syncs
# may: thread_waits lock_waits single_threaded
# needs: javac

prepare() {
    for n in $(seq 40); do echo "class C$n { int f(int x) { return x * $n; } }" > C$n.java; done
}

run() {
    javac *.java
}

"$1"
