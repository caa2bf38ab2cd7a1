// The list of records: the newest at the bottom, as in a terminal.

import { get } from "./server.js";
import { clock, count, element, made, say, show, size, things, visible, visibleLines } from "./text.js";

const ROWS_MAX = 500;

export class RecordList {
  constructor(getLog) {
    this.getLog = getLog;
    this.rows = element("rows");
    this.list = element("list");
    this.isPaused = false;
    this.waiting = [];
    this.skipped = 0;
    this.isAtEnd = true;
    this.list.addEventListener("scroll", () => {
      this.isAtEnd = this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - 8;
    });
    new ResizeObserver(() => this.stayAtEnd()).observe(this.list);
    this.rows.addEventListener("click", (event) => this.open(event.target.closest("li.record")));
    this.rows.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.open(event.target.closest("li.record"));
    });
  }

  // Begin again, with the last records that match.
  start(found) {
    this.waiting = [];
    this.skipped = 0;
    this.rows.replaceChildren();
    if (found.is_cut) this.rows.append(made("li", "skipped", "older records were not searched"));
    this.isAtEnd = true;
    this.append(found.rows, 0);
  }

  add(found) {
    if (!this.isPaused) {
      this.append(found.rows, found.skipped);
      return;
    }
    this.skipped += found.skipped;
    this.waiting.push(...found.rows);
    this.skipped += Math.max(this.waiting.length - ROWS_MAX, 0);
    this.waiting = this.waiting.slice(-ROWS_MAX);
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    if (isPaused) return;
    this.append(this.waiting, this.skipped);
    this.waiting = [];
    this.skipped = 0;
  }

  append(rows, skipped) {
    const added = document.createDocumentFragment();
    if (skipped > 0) added.append(made("li", "skipped", `skipped ${things(skipped, "record")}`));
    for (const row of rows) added.append(rowOf(row));
    this.rows.append(added);
    while (this.rows.childElementCount > ROWS_MAX) this.rows.firstElementChild.remove();
    show(element("empty"), this.rows.childElementCount === 0);
    this.stayAtEnd();
  }

  stayAtEnd() {
    if (this.isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }

  async open(item) {
    if (item) await openRecord(this.getLog(), item.dataset.ref);
  }
}

function rowOf(row) {
  const item = made("li", `record ${severityClass(row.severity)}`);
  item.dataset.ref = row.ref;
  item.tabIndex = 0;
  const time = made("span", "time", clock(row.time));
  time.title = visible(`${row.time}, ${row.ref}`);
  item.append(time, made("span", "level", row.level ?? ""), made("span", "logger", row.logger ?? ""), made("span", "text", row.text));
  return item;
}

function severityClass(severity) {
  if (severity === null) return "";
  return severity >= 17 ? "error" : severity >= 13 ? "warning" : "";
}

export async function openRecord(log, ref) {
  const dialog = element("record");
  say(element("record-title"), `Record ${ref}`);
  const fields = element("record-fields");
  fields.replaceChildren();
  const text = element("record-text");
  text.textContent = "";
  try {
    const record = await get("/api/record", { log, ref });
    const shown = [
      ["Sequence", count(record.sequence)],
      ["Time", record.time],
      ["Appended", record.appended],
      ["Size", `${size(record.bytes)}${record.is_cut ? ", cut" : ""}`],
      ["Level", record.level],
      ["Logger", record.logger],
    ];
    for (const [name, value] of shown) {
      if (value !== null) fields.append(made("dt", "", name), made("dd", "", value));
    }
    text.textContent = visibleLines(record.text);
  } catch (error) {
    text.textContent = visible(error.message);
  }
  if (!dialog.open) dialog.showModal();
}
