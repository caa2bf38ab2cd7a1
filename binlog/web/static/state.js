// The state of a log: rate, figures, files, followers, groups and seal.

import { count, duration, element, fillTable, say, show, size, things, visible } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 240;
const HEIGHT = 40;

export function showState(state, openGroup) {
  say(element("path"), state.path);
  const isBad = state.problem !== null || state.is_poisoned;
  show(element("problem"), isBad);
  if (isBad) say(element("problem"), state.problem ?? "A write or a sync failed. The log accepts no records until a writer reopens it.");
  say(element("records-rate"), count(state.rate.records));
  say(element("bytes-rate"), `${size(state.rate.bytes)}/s`);
  say(element("record-count"), count(state.record_count));
  say(element("tail"), state.tail ?? "-");
  say(element("file-count"), count(state.file_count));
  say(element("disk-bytes"), size(state.disk_bytes));
  drawHistory(state.history);
  showGroups(state, openGroup);
  showFollowers(state);
  show(element("seal-part"), state.seal !== null);
  if (state.seal !== null) {
    say(element("seal"), sealText(state.seal));
    element("seal").className = state.seal.is_cut || state.seal.problem ? "problem" : "";
  }
  fillTable(element("files"), state.files, (file) => file.number, (file) => [
    [String(file.number)],
    [file.kind],
    [count(file.record_count), "number"],
    [size(file.disk_bytes), "number"],
  ]);
  showMore("files-more", state.file_count - state.files.length, "file");
}

function showMore(id, left, thing) {
  show(element(id), left > 0);
  if (left > 0) say(element(id), `and ${things(left, `more ${thing}`)}`);
}

function showGroups(state, openGroup) {
  show(element("groups-part"), state.groups.length > 0);
  fillTable(element("groups"), state.groups, (group) => group.name, (group) => {
    const name = [group.name + (group.is_paused ? " (paused)" : ""), "", () => openGroup(group.name)];
    if (group.problem !== null) return [name, [group.problem, "bad"], [""], [""], [""], [""]];
    return [
      name,
      [count(group.lag), "number"],
      [trendText(group.trend), "number"],
      [count(group.in_hand), "number"],
      [count(group.member_count), "number"],
      [count(group.dead_letters), "number"],
    ];
  });
  showMore("groups-more", state.group_count - state.groups.length, "group");
}

function showFollowers(state) {
  show(element("followers-part"), state.followers.length > 0);
  fillTable(element("followers"), state.followers, (each) => each.position, (each) => {
    if (each.problem !== null) return [[each.name], [each.problem, "bad"], [""], [""]];
    const lag = each.records_behind === null ? size(each.bytes_behind) : count(each.records_behind);
    return [[each.name], [lag, "number"], [duration(each.seconds_behind), "number"], [trendText(each.trend), "number"]];
  });
  showMore("followers-more", state.follower_count - state.followers.length, "follower");
}

function trendText(trend) {
  if (trend === null) return "-";
  return trend === 0 ? "steady" : `${trend > 0 ? "+" : "\u2212"}${count(Math.abs(trend))}/s`;
}

function sealText(seal) {
  if (seal.problem) return seal.problem;
  const parts = [`${things(seal.size, "record")} sealed`];
  if (seal.signed_seconds_ago !== null) parts.push(`signed ${duration(seal.signed_seconds_ago)} ago`);
  if (seal.is_cut) return `The log ends before its seal: ${parts.join(", ")}`;
  if (seal.unsealed_records !== null) parts.push(`${things(seal.unsealed_records, "record")} unsealed`);
  return parts.join(", ");
}

// One step for each second, the latest on the right.
function drawHistory(history) {
  const svg = element("history");
  const path = svg.firstElementChild ?? svg.appendChild(document.createElementNS(SVG, "path"));
  const most = Math.max(...history, 1);
  const step = WIDTH / history.length;
  const points = history.map((value, index) => {
    const y = (HEIGHT - 1 - (value / most) * (HEIGHT - 3)).toFixed(1);
    return `L${(index * step).toFixed(1)} ${y}L${((index + 1) * step).toFixed(1)} ${y}`;
  });
  path.setAttribute("d", `M0 ${HEIGHT}${points.join("")}L${WIDTH} ${HEIGHT}Z`);
  svg.setAttribute("aria-label", visible(`Records of each of the last ${history.length} seconds, at most ${count(most)}`));
}
