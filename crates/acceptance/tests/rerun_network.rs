//! `reenact rerun --network`: servers are executed again on real sockets, with peers that are played and with
//! their real clients.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, program, tier, trials};

/// Exit codes.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const DIFFERENT: i32 = 4;

/// Servers: their name in trials, what they need, the script that becomes the server, and what their client
/// asks. `PORT` stands for a free port.
const SERVERS: &[(&str, &[&str], &str, &str)] = &[
    ("nginx", &["nginx", "curl"], NGINX, FETCH),
    ("httpd", &["apache2", "curl"], HTTPD, FETCH),
    ("httpd_with_children", &["apache2", "curl", "setsid"], HTTPD_WITH_CHILDREN, FETCH),
    (
        "python_http",
        &["python3", "curl"],
        "for i in 1 2 3; do seq $((i * 5000)) > $i; done; exec python3 -c 'import http.server as h\n\
         server = h.HTTPServer((\"127.0.0.1\", PORT), h.SimpleHTTPRequestHandler)\n\
         for _ in range(4): server.handle_request()'",
        FETCH,
    ),
];

const FETCH: &str = "for i in 1 2 3 nothing; do curl -s http://127.0.0.1:PORT/$i | md5sum; done";
const NGINX: &str = "mkdir -p logs html t; for i in 1 2 3; do seq $((i * 5000)) > html/$i; done; \
    printf 'daemon off; master_process off; error_log logs/error; pid logs/pid;\n\
    events { worker_connections 64; }\n\
    http { access_log off; sendfile on; tcp_nopush on; client_body_temp_path t/a; proxy_temp_path t/b; \
    fastcgi_temp_path t/c; uwsgi_temp_path t/d; scgi_temp_path t/e;\n\
    server { listen PORT; root %s/html; } }\n' \"$PWD\" > conf; \
    exec nginx -p \"$PWD\" -e logs/first -c \"$PWD/conf\"";
/// The text of a script that becomes Apache: the words of its command before `-f`.
macro_rules! httpd {
    ($command:literal) => {
        concat!(
            "mkdir -p logs html; for i in 1 2 3; do seq $((i * 5000)) > html/$i; done; \
            modules=/usr/lib/apache2/modules; \
            printf \"ServerRoot $PWD\\nServerName localhost\\nListen PORT\\nPidFile logs/pid\\n\
            ErrorLog logs/error\\nLoadModule mpm_prefork_module $modules/mod_mpm_prefork.so\\n\
            LoadModule authz_core_module $modules/mod_authz_core.so\\nDocumentRoot $PWD/html\\n\
            Mutex file:$PWD/logs\\nStartServers 2\\nMinSpareServers 1\\nUser nobody\\nGroup nogroup\\n\" > conf; exec ",
            $command,
            " -f \"$PWD/conf\""
        )
    };
}
const HTTPD: &str = httpd!("apache2 -X");
// It tells its process group to end.
const HTTPD_WITH_CHILDREN: &str = httpd!("setsid apache2 -DFOREGROUND");

/// Both sides in one recording: each gets a peer of its own.
const BOTH: &str = "exec python3 -c 'import os, socket\n\
    server = socket.create_server((\"127.0.0.1\", 0))\n\
    if os.fork() == 0:\n  peer = socket.create_connection(server.getsockname())\n  \
    peer.sendall(os.urandom(100000)); peer.shutdown(socket.SHUT_WR); os._exit(len(peer.recv(9)))\n\
    peer, name = server.accept()\nprint(name)\ntotal = 0\n\
    while (piece := peer.recv(4096)): total += sum(piece)\n\
    peer.sendall(b\"answer\")\nprint(total, os.wait())'";

fn main() -> ExitCode {
    trials::main(|trials| {
        for &(name, needed, server, client) in SERVERS {
            let missing = trials::missing(needed);
            trials.add_for_both(name, missing, move |stage: &Stage, who| {
                let place = Place::new(stage, who)?;
                let port = free_port()?;
                let with_port = |text: &str| text.replace("PORT", &port.to_string());
                let server = with_port(server);
                let server = ["sh", "-c", &server];
                let recording =
                    Recording::with_client(stage, place, "", &server, &with_port(client))?;
                recording.is_the_same(stage)
            });
        }
        let missing = trials::missing(&["python3"]);
        trials.add_for_both("both_sides", missing, |stage: &Stage, who| {
            let place = Place::new(stage, who)?;
            let (trace, recorded) = record(stage, &place, &["sh", "-c", BOTH])?;
            let json = said(rerun(stage, &place, &["--network", "feed", "--json"], &trace)?)?;
            ensure!(json["ok"] == true && json["network_calls"].as_u64() > Some(20), "{json}");
            let found = rerun(stage, &place, &["--network", "feed"], &trace)?.success("rerun")?;
            ensure!(found.text() == recorded.text(), "{}", found.text());
            Ok(())
        });
        trials.add_for_both("threads_in_turn", missing, threads_in_turn);
        trials.add_for_both("a_server_with_epoll", None, |stage: &Stage, who| {
            Recording::of_echo(stage, who)?.is_the_same(stage)
        });
        trials.add_for_both("a_server_at_any_port", missing, any_port);
        trials.add_for_both("another_client_is_found", None, other_client);
        trials.add_for_both("peers_of_a_client_are_played", None, client);
        trials.add_for_both("nothing_outside_is_reached", None, nothing_outside);
        trials.add_for_both("with_real_files", None, |stage: &Stage, who| {
            let recording = Recording::of_echo(stage, who)?;
            let options = ["--network", "feed", "--files", "real", "--json"];
            let json = said(rerun(stage, &recording.place, &options, &recording.trace)?)?;
            ensure!(json["ok"] == true && json["network_calls"].as_u64() > Some(20), "{json}");
            Ok(())
        });
        Ok(())
    })
}

/// A port that nobody uses. Another process may take it before it is used, which the recording would tell.
fn free_port() -> Result<u16, Complaint> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    Ok(listener.local_addr().map_err(text)?.port())
}

fn text(error: impl std::fmt::Display) -> Complaint {
    error.to_string()
}

fn echo(stage: &Stage) -> Result<String, Complaint> {
    Ok(program::named_in("tests/rerun", "echo")?.build(stage)?.display().to_string())
}

fn record(stage: &Stage, place: &Place, command: &[&str]) -> Result<(PathBuf, Outcome), Complaint> {
    let trace = place.trace("network.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--force", "--rerunnable", "--output"]).arg(&trace);
    let outcome = place.run(record.arg("--").args(command))?.success("record")?;
    Ok((trace, outcome))
}

fn rerun(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    trace: &Path,
) -> Result<Outcome, Complaint> {
    let mut command = place.command(&stage.reenact);
    place.run(command.arg("rerun").args(options).arg(trace))
}

fn said(outcome: Outcome) -> Result<serde_json::Value, Complaint> {
    serde_json::from_str(&outcome.success("rerun")?.text()).map_err(text)
}

/// A recorded server, whose client was not recorded.
struct Recording {
    place: Place,
    trace: PathBuf,
    client: String,
    /// What the client said.
    expected: String,
}

impl Recording {
    fn of_echo(stage: &Stage, who: Who) -> Result<Recording, Complaint> {
        let place = Place::new(stage, who)?;
        let (program, port) = (echo(stage)?, free_port()?.to_string());
        let client = format!("{program} ask {port} word");
        Recording::with_client(stage, place, "", &[&program, "serve", &port, "3"], &client)
    }

    /// Records a server, and has the client ask until it is answered. Then the server is told to end, if it
    /// has not ended by itself.
    fn with_client(
        stage: &Stage,
        place: Place,
        option: &str,
        server: &[&str],
        client: &str,
    ) -> Result<Recording, Complaint> {
        // Looks only whether somebody listens: a connection would be a part of the recording.
        const SCRIPT: &str = "option=$1; client=$2; trace=$3; reenact=$4; shift 4; \
            \"$reenact\" record -q --force --rerunnable $option -o \"$trace\" -- \"$@\" > server & recorder=$!; \
            port=$(printf '%04X' $(echo \"$client\" | grep -oE '(:| )[0-9]{4,5}\\b' | head -1 | tr -dc 0-9)); \
            until grep -qi \":$port 0.* 0A \" /proc/net/tcp /proc/net/tcp6; do \
            kill -0 $recorder || exit 1; sleep 0.05; done; \
            sh -c \"$client\" || exit 2; \
            for i in $(seq 20); do kill -0 $recorder 2> /dev/null || break; sleep 0.1; done; \
            for task in /proc/$recorder/task/*; do \
            for child in $(cat $task/children 2> /dev/null); do kill -TERM $child; done; done; wait $recorder";
        let trace = place.trace("server.rnt");
        let mut script = place.command("bash");
        script
            .args(["-c", SCRIPT, "sh", option, client])
            .arg(&trace)
            .arg(&stage.reenact)
            .args(server);
        let expected = place.run(&mut script)?.success("the server and its client")?.text();
        Ok(Recording { place, trace, client: client.to_owned(), expected })
    }

    /// It is executed again with all kinds of peers.
    fn is_the_same(&self, stage: &Stage) -> Result<(), Complaint> {
        for round in 0..tier::rounds(1, 100) {
            for network in ["answer", "feed", "live"] {
                let mut options = vec!["--json", "--network", network];
                if network == "live" {
                    options.extend(["--client", &self.client]);
                }
                let json = said(rerun(stage, &self.place, &options, &self.trace)?)?;
                ensure!(json["ok"] == true, "round {round}, {network}: {json}");
                let made = json["network_calls"].as_u64().unwrap_or(0);
                ensure!((made > 20) == (network != "answer"), "{network}: {json}");
                ensure!((json["client_code"] == 0) == (network == "live"), "{network}: {json}");
            }
        }
        // The client gets what it got, which is shown.
        let options = ["--network", "live", "--client", &self.client];
        let found = rerun(stage, &self.place, &options, &self.trace)?.success("rerun")?;
        for line in self.expected.lines() {
            ensure!(found.text().contains(line), "no {line}: {}", found.text());
        }
        Ok(())
    }
}

/// One thread waits for its client while the other serves another one, and only one of them runs at a time.
fn threads_in_turn(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const SERVER: &str = "import os, socket, threading\n\
        server, left = socket.create_server((\"127.0.0.1\", PORT)), threading.Semaphore(0)\n\
        def serve():\n  while True:\n    peer, _ = server.accept()\n    \
        while (piece := peer.recv(100)): peer.sendall(piece.upper())\n    peer.close(); left.release()\n\
        for _ in range(2): threading.Thread(target=serve, daemon=True).start()\n\
        for _ in range(6): left.acquire()\n\
        os._exit(0)";
    const CLIENT: &str = "python3 -c 'import socket\n\
        for word in range(6):\n  peer = socket.create_connection((\"127.0.0.1\", PORT))\n  \
        for part in range(3): peer.sendall(b\"a %d\" % word); print(peer.recv(100))\n  peer.close()'";
    let place = Place::new(stage, who)?;
    let port = free_port()?.to_string();
    let (server, client) = (SERVER.replace("PORT", &port), CLIENT.replace("PORT", &port));
    let server = ["python3", "-c", &server];
    let recording = Recording::with_client(stage, place, "--serialize", &server, &client)?;
    recording.is_the_same(stage)
}

/// The kernel gave the server its port, by which its client was told to ask.
fn any_port(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    const SERVER: &str = "import socket\n\
        server = socket.create_server((\"127.0.0.1\", 0))\n\
        open(\"port.new\", \"w\").write(str(server.getsockname()[1]))\n\
        import os; os.rename(\"port.new\", \"port\")\n\
        peer, _ = server.accept()\n\
        peer.sendall(b\"got \" + peer.recv(100)); peer.close()";
    const CLIENT: &str = "import socket, sys\n\
        peer = socket.create_connection((\"127.0.0.1\", int(sys.argv[1])))\n\
        peer.sendall(b\"a word\"); print(peer.makefile().read())";
    let trace = place.trace("any.rnt");
    const SCRIPT: &str = "\"$1\" record -q --rerunnable -o \"$2\" -- python3 -c \"$3\" & \
        until [ -e port ]; do kill -0 $! || exit 1; sleep 0.05; done; \
        python3 -c \"$4\" $(cat port); wait $!";
    let mut script = place.command("sh");
    script.args(["-c", SCRIPT, "sh"]).arg(&stage.reenact).arg(&trace).args([SERVER, CLIENT]);
    let told = place.run(&mut script)?.success("the server and its client")?.text();
    ensure!(told.contains("got a word"), "{told}");
    let port = std::fs::read_to_string(place.work().join("port")).map_err(text)?;
    place.clear()?;
    let client = format!("python3 -c '{CLIENT}' {port}");
    let found = rerun(stage, &place, &["--network", "live", "--client", &client], &trace)?;
    let found = found.success("rerun")?;
    ensure!(found.text().contains("got a word"), "{}", found.text());
    let json = said(rerun(stage, &place, &["--network", "feed", "--json"], &trace)?)?;
    ensure!(json["ok"] == true, "{json}");
    Ok(())
}

fn other_client(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::of_echo(stage, who)?;
    let Recording { place, trace, client, .. } = &recording;
    let cases = [
        (client.replace("word", "wort"), "the client sends"),
        (format!("{client} & {client}"), "the client"),
        ("true".into(), "has not connected"),
    ];
    for (other, what) in cases {
        let found = rerun(stage, place, &["--network", "live", "--client", &other], trace)?;
        let told = found.errors();
        let is_told = told.contains(what) && told.contains("likely reason: another client");
        // Two at a time may come one after the other: then the first is served, and nobody knows of the second.
        let may_pass = other.contains('&') && found.status.code() == Some(0);
        ensure!(may_pass || found.status.code() == Some(DIFFERENT) && is_told, "{other}: {told}");
    }
    for options in
        [&["--network", "live"][..], &["--client", "true"], &["--gdb", "--network", "feed"]]
    {
        let found = rerun(stage, place, options, trace)?;
        ensure!(found.status.code() == Some(USAGE), "{options:?}: {}", found.errors());
    }
    Ok(())
}

/// A client is executed again without its server.
fn client(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let (program, port) = (echo(stage)?, free_port()?.to_string());
    let script = format!(
        "{program} serve {port} 3 > served & until grep -qi \":$(printf %04X {port}) 0.* 0A \" /proc/net/tcp; \
         do sleep 0.05; done; \"$0\" record -q --rerunnable -o \"$1\" -- {program} ask {port} word; wait"
    );
    let trace = place.trace("client.rnt");
    let mut record = place.command("sh");
    record.args(["-c", &script]).arg(&stage.reenact).arg(&trace);
    let expected = place.run(&mut record)?.success("record")?.text();
    let found = rerun(stage, &place, &["--network", "feed"], &trace)?.success("rerun")?;
    ensure!(found.text() == expected, "{}, not {expected}", found.text());
    let json = said(rerun(stage, &place, &["--network", "feed", "--json"], &trace)?)?;
    ensure!(json["ok"] == true && json["network_calls"].as_u64() > Some(20), "{json}");
    Ok(())
}

/// The program and its client are in a network of their own.
fn nothing_outside(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::of_echo(stage, who)?;
    let Recording { place, trace, client, .. } = &recording;
    // Somebody listens here at the port of the recording, and at another one.
    let port = client.split(' ').nth(2).unwrap_or_default().to_owned();
    let here = TcpListener::bind(format!("127.0.0.1:{port}")).map_err(text)?;
    let other = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let outside = other.local_addr().map_err(text)?.port().to_string();
    for listener in [&here, &other] {
        listener.set_nonblocking(true).map_err(text)?;
    }
    rerun(stage, place, &["--network", "feed"], trace)?.success("rerun")?;
    rerun(stage, place, &["--network", "live", "--client", client], trace)?.success("rerun")?;
    let astray = client.replace(&port, &outside);
    let found = rerun(stage, place, &["--network", "live", "--client", &astray], trace)?;
    let code = found.status.code();
    ensure!(code == Some(DIFFERENT) && code != Some(FAILED), "{code:?}: {}", found.errors());
    for listener in [here, other] {
        ensure!(listener.accept().is_err(), "somebody has connected from inside");
    }
    Ok(())
}
