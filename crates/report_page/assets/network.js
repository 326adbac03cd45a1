// Connections, sums of them, and pipes.
function networkParts(data) {
  const { network, network_facts: facts } = data;
  const has = (key) => network[key].rows.length > 0;
  if (!Object.keys(network).some(has)) return [];
  const parts = [];
  if (has("connections")) {
    const list = [
      ["connections", words.count(facts.connection_count)],
      ["received", words.bytes(facts.in_bytes)],
      ["sent", words.bytes(facts.out_bytes)],
      ["replies", words.count(facts.replies)],
      ["half of them within", Number(facts.replies) ? words.ns(facts.p50_ns) : "no replies"],
      ["the longest", Number(facts.replies) ? words.ns(facts.max_ns) : "no replies"],
    ];
    const summary = picture("network", null, null, (it) => {
      it.body.replaceChildren(element("dl", { class: "facts" }, list.map(fact)));
      return { connections: Number(facts.connection_count), in_bytes: Number(facts.in_bytes), out_bytes: Number(facts.out_bytes), replies: Number(facts.replies) };
    });
    parts.push(summary);
  }
  const reply = "A reply takes from the end of the request's last part to the end of the reply's first part; who serves and who asks is known from who connected, or else from who spoke first. Where both ends were recorded, each of them is a connection.";
  const TABLES = [
    ["listening", "By listening address", reply, "address"],
    ["peers", "By peer", null, "address"],
    ["connections", "Connections", null, "peer"],
    ["local_sockets", "Sockets of this machine", "AF_UNIX, netlink, pairs, and sockets whose addresses are not known.", "kind"],
    ["pipes", "Pipes", null, "kind"],
  ];
  for (const [key, title, about, first] of TABLES) {
    if (!has(key)) continue;
    const within = network[key].columns.some((column) => column.key === "start_ns") ? () => livedWithin(network[key], "start_ns", "time_ns") : undefined;
    parts.push(dataTable("network_" + key, title, about, network[key], { first, rows: 10, nothing: "None.", within }));
  }
  return parts;
}
