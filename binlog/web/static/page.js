// The page: which log and filter are chosen, and the stream of events.

import { GroupDialog } from "./groups.js";
import { RecordList } from "./records.js";
import { get } from "./server.js";
import { showState } from "./state.js";
import { count, element, made, say, show, visible } from "./text.js";

const TYPING_MS = 400;

const chooser = element("log");
const filter = element("filter");
const states = new Map();
const records = new RecordList(chosen);
const group = new GroupDialog(chosen);
let source = null;
let typing = 0;
let connections = 0;

function chosen() {
  return chooser.value;
}

function openGroup(name) {
  const found = states.get(chosen())?.groups.find((each) => each.name === name);
  if (found) group.open(found);
}

function showChosen() {
  const state = states.get(chosen());
  if (!state) return;
  showState(state, openGroup);
  group.update(state.groups);
}

function showStatus(text) {
  say(element("status"), text);
}

function showLive() {
  const waiting = records.waiting.length + records.skipped;
  showStatus(records.isPaused ? `paused, ${count(waiting)} new` : "live");
}

function note(text) {
  show(element("note"), text !== "");
  say(element("note"), text);
}

async function connect() {
  source?.close();
  connections += 1;
  const connection = connections;
  const values = new URLSearchParams({ log: chosen() });
  for (const [name, value] of new FormData(filter)) if (value) values.append(name, value);
  try {
    // Answers what is wrong with the filter, which a stream cannot.
    await get("/api/check", values);
  } catch (error) {
    if (connection === connections) note(error.message);
    return;
  }
  if (connection !== connections) return;
  note("");
  source = new EventSource(`/events?${values}`);
  on("start", (found) => {
    records.start(found);
    showLive();
  });
  on("rows", (found) => {
    records.add(found);
    showLive();
  });
  on("state", (state) => {
    states.set(String(state.log), state);
    if (String(state.log) === chosen()) showChosen();
  });
  on("note", (found) => note(found.text));
  const opened = source;
  source.onerror = () => {
    if (opened !== source) return;
    showStatus(opened.readyState === EventSource.CLOSED ? "ended: reload the page" : "connection lost, connecting again");
  };
}

function on(name, use) {
  source.addEventListener(name, (event) => use(JSON.parse(event.data)));
}

async function begin() {
  const found = await get("/api/logs");
  found.logs.forEach((name, index) => {
    const option = made("option", "", name);
    option.value = String(index);
    chooser.append(option);
  });
  show(element("chooser"), found.logs.length > 1);
  show(element("path"), found.logs.length === 1);
  document.title = visible(found.logs.length === 1 ? `${found.logs[0].replace(/\/+$/, "").split("/").at(-1)} - binlog` : "binlog");
  if (found.read_only) group.forbidChanges();
  await connect();
}

filter.addEventListener("submit", (event) => event.preventDefault());
filter.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(connect, TYPING_MS);
});
chooser.addEventListener("change", () => {
  showChosen();
  connect();
});
element("pause").addEventListener("click", (event) => {
  records.pause(!records.isPaused);
  event.target.setAttribute("aria-pressed", String(records.isPaused));
  say(event.target, records.isPaused ? "Resume" : "Pause");
  showLive();
});
for (const button of document.querySelectorAll("dialog .close")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
begin().catch((error) => showStatus(error.message));
