// A flame graph: time in calls by chain of callers, the outermost at the top. A click on a box shows it
// in full width; a click on one above it, or on it, goes back.
function flameGraph(data) {
  const ROW = 18;
  const [NAME, PLACE, NS, CALLS, BELOW] = [0, 1, 2, 3, 4];
  const root = data.flame;
  let chosen = [root];
  const it = picture(
    "flame",
    "Time in calls by callers",
    "As wide as the calls made from there took, waiting included; the program's beginning at the top, calls in blue. A click shows one in full width.",
    () => {
      const frame = element("div", { class: "flame", role: "group", "aria-label": it.label });
      let deepest = 0;
      const box = (node, depth, from, width, path, isAbove) => {
        if (width < 2) return;
        deepest = Math.max(deepest, depth);
        const isCall = !node[BELOW].length && !node[PLACE];
        const target = isAbove || path.length === chosen.length ? path.slice(0, -1) : path;
        const button = element(
          "button",
          {
            type: "button",
            tabindex: "-1",
            class: isAbove ? "above" : isCall ? "call" : undefined,
            onclick: () => ((chosen = target.length ? target : [root]), tip.hide(), it.draw()),
            onpointermove: (event) => tip.show(event, [node[NAME], ...(node[PLACE] ? [["at", node[PLACE]]] : []), ["time", words.ns(node[NS])], ["calls", words.count(node[CALLS])], ["of all", words.share(Number(node[NS]) / Math.max(1, Number(root[NS])))]]),
            onpointerleave: tip.hide,
          },
          width > 24 ? node[NAME] : ""
        );
        button.style.left = from + "px";
        button.style.top = depth * ROW + "px";
        button.style.width = width + "px";
        frame.append(button);
        if (isAbove) return;
        let at = from;
        for (const child of node[BELOW]) {
          const wide = (width * Number(child[NS])) / Math.max(1, Number(node[NS]));
          box(child, depth + 1, at, wide, [...path, child], false);
          at += wide;
        }
      };
      chosen.slice(0, -1).forEach((node, depth) => box(node, depth, 0, it.width, chosen.slice(0, depth + 2), true));
      box(chosen[chosen.length - 1], chosen.length - 1, 0, it.width, chosen, false);
      frame.style.height = (deepest + 1) * ROW + "px";
      rove(frame, "button");
      it.body.replaceChildren(frame, element("p", { class: "about" }, "All of it as text: reenact export --to folded"));
      return { calls: Number(root[CALLS]), ns: Number(root[NS]) };
    }
  );
  return it;
}
