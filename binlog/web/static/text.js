// Texts for people, and elements.  Whatever comes from a log goes through `visible`, and into the page as text only.

// Control and format characters, which hide or reorder their neighbours, lone surrogates, and line separators.  The two
// joiners are harmless: they join the letters of a word, or the parts of an emoji.
const ACTED_UPON = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function escaped(char) {
  const code = char.codePointAt(0);
  if (char === "\n") return "\\n";
  if (char === "\t") return "\\t";
  return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
}

// A text in which every character can be seen.
export function visible(text) {
  return String(text ?? "").replace(ACTED_UPON, escaped);
}

// The same with its lines and tabs.
export function visibleLines(text) {
  return String(text ?? "").replace(ACTED_UPON, (char) => (char === "\n" || char === "\t" ? char : escaped(char)));
}

export function element(id) {
  return document.getElementById(id);
}

export function made(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = visible(text);
  return node;
}

// Set the text of an element, if it is another one: an element that does not change keeps its selection.
export function say(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) node.textContent = shown;
}

export function show(node, isShown) {
  node.hidden = !isShown;
}

export function count(value) {
  if (value === null || value === undefined) return "-";
  const digits = value > 0 && value < 10 && !Number.isInteger(value) ? 1 : 0;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function things(value, thing) {
  return `${count(value)} ${value === 1 ? thing : `${thing}s`}`;
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "-";
  let unit = 0;
  while (bytes >= 1000 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${bytes.toFixed(unit === 0 || bytes >= 100 ? 0 : 1)} ${UNITS[unit]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * length) return `${Math.round(seconds / length)} ${unit}`;
  }
  return `${Math.max(Math.round(seconds), 0)} s`;
}

// A time of today as 12:00:00.123, of another day as 11-28 12:00:00, in the browser's zone.
export function clock(text) {
  const time = new Date(text);
  if (!text || Number.isNaN(time.getTime())) return "-";
  const two = (value) => String(value).padStart(2, "0");
  const hours = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  if (time.toDateString() === new Date().toDateString()) return `${hours}.${String(time.getMilliseconds()).padStart(3, "0")}`;
  return `${two(time.getMonth() + 1)}-${two(time.getDate())} ${hours}`;
}

// A table whose rows are changed in place, so that buttons keep the focus.  cells(item): [text, class] for each column,
// or [text, class, onclick] for a button.
export function fillTable(body, items, key, cells) {
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  items.forEach((item, index) => {
    const name = String(key(item));
    const row = old.get(name) ?? document.createElement("tr");
    old.delete(name);
    row.dataset.key = name;
    cells(item).forEach(([text, className, onclick], at) => {
      const cell = row.cells[at] ?? row.insertCell();
      if (cell.className !== (className ?? "")) cell.className = className ?? "";
      if (!onclick) {
        say(cell, text);
        return;
      }
      const button = cell.firstChild ?? cell.appendChild(made("button", className === "action" ? "" : "link"));
      button.type = "button";
      button.onclick = onclick;
      say(button, text);
    });
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  for (const row of old.values()) row.remove();
}
