// The state of the page in its address: what is shown can be sent as a link, and is there again after a
// reload. `#calls` alone is a section.
const address = {
  state: new Map(),
  hooks: new Map(),

  // Names what restores a key.
  on(key, restore) {
    address.hooks.set(key, restore);
  },

  // Puts a value into the address; null takes it out.
  put(key, value) {
    if (value === null || value === undefined || value === "") address.state.delete(key);
    else address.state.set(key, String(value));
    if (address.isRestoring) return;
    const text = [...address.state].map(([of, is]) => of + "=" + encodeURIComponent(is)).join("&");
    try {
      history.replaceState(null, "", "#" + text);
    } catch {
      // A page inside of another one may have no address of its own.
    }
  },

  // Brings the page into the state of its address.
  restore() {
    const text = location.hash.slice(1);
    if (!text.includes("=")) {
      if (text) document.getElementById(text)?.scrollIntoView();
      return;
    }
    const wanted = new Map();
    for (const part of text.split("&")) {
      const at = part.indexOf("=");
      try {
        wanted.set(part.slice(0, at), decodeURIComponent(part.slice(at + 1)));
      } catch {
        // It is no address of ours.
      }
    }
    address.isRestoring = true;
    for (const [key, restore] of address.hooks) {
      if (wanted.has(key) || address.state.has(key)) restore(wanted.get(key) ?? null);
    }
    address.isRestoring = false;
    address.state = new Map([...wanted].filter(([key]) => address.hooks.has(key)));
    const section = wanted.get("at");
    if (section) document.getElementById(section)?.scrollIntoView();
  },
};

address.on("time", (text) => {
  const [, from, to] = /^(\d+)-(\d+)$/.exec(text || "") || [];
  if (to) span.set(Number(from), Number(to));
  else span.reset();
});
address.on("at", () => {});
