// DOM elements. Data only becomes text nodes and attribute values, never markup.
const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function shape(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// Cache of the style sheet's colours, cleared before each drawing.
const palette = new Map();

function colour(name) {
  if (!palette.has(name)) {
    palette.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
  }
  return palette.get(name);
}

const GROUP_KEYS = ["read", "write", "sync", "file", "memory", "task", "wait", "other"];

function groupColour(group) {
  return colour(GROUP_KEYS[group] || "other");
}

// All pictures, redrawn when the window size or the colours change.
const pictures = [];

// Makes a titled box. `draw` fills its body and returns a description of the drawing for tests.
// It is called again when the size or the colours change.
function picture(name, title, about, draw) {
  const body = element("div", { class: "body" });
  const controls = element("div", { class: "controls" });
  const box = element(
    "section",
    { class: "card", "data-picture": name },
    element("div", { class: "head" }, title ? element("h3", {}, title) : null, controls),
    about ? element("p", { class: "about" }, about) : null,
    body
  );
  const it = {
    box,
    label: [title || name.replaceAll("_", " "), about].filter(Boolean).join(": "),
    body,
    controls,
    width: 0,
    draw() {
      // The width is 0 while the page is hidden or being printed.
      it.width = Math.max(200, body.clientWidth);
      box.dataset.drawn = JSON.stringify(draw(it) || {});
    },
  };
  pictures.push(it);
  return it;
}

function drawAll() {
  palette.clear();
  for (const it of pictures) it.draw();
}

// Puts a text into the clipboard.
async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { class: "aside" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "copied";
  say(["copied"]);
  setTimeout(() => (button.textContent = before), 1200);
}

// A command to paste, with a button that copies it.
function command(text) {
  const button = element("button", { type: "button", class: "copy", "aria-label": "copy the command " + text }, "copy");
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    copy(text, button);
  });
  return element("span", { class: "paste" }, button, element("code", { title: text }, text));
}

// Shows why there is no data.
function empty(body, why) {
  body.replaceChildren(element("p", { class: "empty" }, why));
}

function chooser(label, options, chosen, change) {
  const select = element("select", {
    "aria-label": label,
    onchange: () => change(Number(select.value)),
  });
  options.forEach((text, index) => select.append(element("option", { value: index }, text)));
  select.value = chosen;
  return element("label", { class: "choose" }, label + " ", select);
}

function legend(entries) {
  return element(
    "div",
    { class: "legend" },
    entries.map(([text, hue]) => {
      const mark = element("i", {});
      mark.style.background = hue;
      return element("span", {}, mark, text);
    })
  );
}

// The box next to the pointer.
const tip = {
  show(event, lines) {
    const box = document.getElementById("tip");
    box.replaceChildren(
      ...lines.map((line) =>
        Array.isArray(line)
          ? element("div", {}, element("span", {}, line[0]), element("b", {}, line[1]))
          : element("div", { class: "tip-title" }, line)
      )
    );
    box.hidden = false;
    const { clientX: x, clientY: y } = event;
    const { offsetWidth: width, offsetHeight: height } = box;
    const left = x + 16 + width > window.innerWidth ? x - width - 12 : x + 16;
    const top = y + 16 + height > window.innerHeight ? y - height - 12 : y + 16;
    box.style.left = Math.max(4, left) + "px";
    box.style.top = Math.max(4, top) + "px";
  },

  hide() {
    document.getElementById("tip").hidden = true;
  },
};
