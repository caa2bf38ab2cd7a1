// A consumer group: its members, its dead letters, and what may be changed.

import { openRecord } from "./records.js";
import { get, post } from "./server.js";
import { clock, count, duration, element, fillTable, say, show, size, things } from "./text.js";

// Of a dead letter; a click on its sequence opens the whole record.
const SHOWN = 200;

export class GroupDialog {
  constructor(getLog) {
    this.getLog = getLog;
    this.name = null;
    this.letters = [];
    this.deadCount = null;
    this.dialog = element("group");
    element("retry-all").onclick = () => this.retry(this.letters.map((letter) => letter.sequence));
    element("drop").onclick = () => this.drop();
    element("reset").onclick = () => this.reset();
  }

  forbidChanges() {
    for (const button of document.querySelectorAll("button.change")) show(button, false);
    this.isReadOnly = true;
  }

  async open(group) {
    this.name = group.name;
    this.say("");
    this.showState(group);
    await this.readLetters();
    if (!this.dialog.open) this.dialog.showModal();
  }

  // Show what the latest state says, and read the dead letters again if there are more of them.
  update(groups) {
    if (!this.dialog.open) return;
    const group = groups.find((each) => each.name === this.name);
    if (!group) {
      this.say("The group was deleted.");
      return;
    }
    if (group.dead_letters !== this.deadCount) this.readLetters();
    this.showState(group);
  }

  showState(group) {
    this.deadCount = group.dead_letters;
    say(element("group-title"), `Group ${group.name}`);
    say(element("group-text"), group.problem ?? stateText(group));
    const members = group.members ?? [];
    show(element("members-none"), members.length === 0);
    show(element("members-table"), members.length > 0);
    fillTable(element("members"), members, (each) => each.seat, (each) => [
      [String(each.seat)],
      [each.hint || "-"],
      [each.is_alive === false ? "gone" : each.is_alive ? "alive" : "-"],
      [count(each.in_hand), "number"],
    ]);
  }

  async readLetters() {
    let found = { count: 0, letters: [] };
    try {
      found = await get("/api/dead", { log: this.getLog(), group: this.name });
    } catch (error) {
      this.say(error.message);
    }
    this.letters = found.letters.filter((letter) => letter.sequence !== null);
    show(element("letters-table"), found.letters.length > 0);
    const left = found.count - found.letters.length;
    say(element("letters-more"), found.count === 0 ? "No dead letters." : left > 0 ? `and ${things(left, "older dead letter")}` : "");
    element("retry-all").disabled = this.letters.length === 0;
    element("drop").disabled = found.count === 0;
    this.letterCount = found.count;
    fillTable(element("letters"), found.letters, (letter) => letter.ref, (letter) => [
      [count(letter.sequence), "number", letter.origin ? () => openRecord(this.getLog(), letter.origin) : undefined],
      [clock(letter.time)],
      [letter.reason],
      [letter.text.slice(0, SHOWN) + (letter.is_cut || letter.text.length > SHOWN ? "..." : ""), "text"],
      letter.sequence === null || this.isReadOnly ? [""] : ["Retry", "action", () => this.retry([letter.sequence])],
    ]);
  }

  async retry(sequences) {
    await this.change("retry", { sequences }, (answer) => {
      const refused = answer.impossible.length;
      const also = refused ? `; ${things(refused, "message")} cannot be delivered: outstanding, or removed from the log` : "";
      return `Delivering ${things(answer.count, "message")} again${also}.`;
    });
  }

  async drop() {
    const text = `Remove ${things(this.letterCount, "dead letter")} of the group ${this.name}, and those that arrive meanwhile? They cannot be restored.`;
    if (await asked(text, "Remove")) {
      await this.change("drop", {}, (answer) => `Removed ${things(answer.count, "dead letter")}.`);
    }
  }

  async reset() {
    const text = `Reset the group ${this.name}? Messages from the place on are delivered again, and earlier ones are skipped. Members lose what they have in hand.`;
    if (await asked(text, "Reset", true)) {
      const value = { to: element("reset-to").value, keep_outstanding: element("reset-keep").checked };
      await this.change("reset", value, (answer) => `The group continues with message ${count(answer.sequence)}.`);
    }
  }

  async change(name, value, text) {
    try {
      this.say(text(await post(`/api/${name}`, { log: Number(this.getLog()), group: this.name, ...value })));
      await this.readLetters();
    } catch (error) {
      this.say(error.message, true);
    }
  }

  say(text, isBad = false) {
    const node = element("group-said");
    show(node, text !== "");
    node.className = isBad ? "problem" : "";
    say(node, text);
  }
}

function stateText(group) {
  const parts = [`lag ${things(group.lag, "message")}`];
  if (group.lag && group.lag_seconds !== null) parts.push(`the oldest ${duration(group.lag_seconds)} old`);
  parts.push(`${count(group.in_hand)} in hand`);
  if (group.delayed) parts.push(`${count(group.delayed)} delayed`);
  if (group.blocked) parts.push(`${count(group.blocked)} blocked`);
  if (group.held_bytes) parts.push(`holds ${size(group.held_bytes)}`);
  if (group.is_paused) parts.push("paused");
  if (group.order !== "none") parts.push(`${group.order} order by key`);
  parts.push(`${things(group.dead_letters, "dead letter")} so far`);
  return parts.join(", ");
}

// Ask, and return whether the answer is yes.
function asked(text, yes, isReset = false) {
  const dialog = element("question");
  say(element("question-text"), text);
  say(element("question-yes"), yes);
  show(element("question-reset"), isReset);
  element("reset-to").required = isReset;
  element("reset-to").value = "";
  element("reset-keep").checked = false;
  dialog.returnValue = "";
  dialog.querySelector("button[value='']").formNoValidate = true;
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}
