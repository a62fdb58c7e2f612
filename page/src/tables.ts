// Tables whose rows are made when they come into sight: 100,000 rows cost what is on the screen.

import { ask } from "./ask";
import { announce, byId, choice, el, fill, inLine, perFrame, settled } from "./dom";
import { COLUMNS, METRICS } from "./figures";
import { currentDataset, metric } from "./graph";
import type { Link, Overview, TableName, TablePart, TableQuery, TableRow } from "./messages";
import { change, state, watch } from "./state";
import { count, figure, percent, short, visible } from "./text";

const ROW = 24;
const PART = 60;
const PRINTED = 40;

const NAMES: [TableName, string][] = [
  ["scopes", "Scopes"], ["groups", "Groups"], ["names", "Names"], ["threads", "Threads"], ["sizes", "Sizes"],
  ["functions", "Functions"], ["stacks", "Stacks"], ["crates", "Crates"], ["blocks", "Largest live blocks"],
  ["tags", "Memory tags"],
];

let follow: (link: Link) => void = () => {};
let body: HTMLElement;
let head: HTMLElement;
let scroller: HTMLElement;
let info: HTMLElement;
let parts = new Map<number, TablePart>();
let shape: TablePart | null = null;
let generation = 0;
let current = 0;
let totals: Overview["totals"] = {};

export function showTables(overview: Overview, onLink: (link: Link) => void): void {
  follow = onLink;
  totals = overview.totals;
  const section = byId("tables");
  section.hidden = false;
  const has = (name: TableName) => overview.rows[name] > 0;
  const tables = NAMES.filter(([name]) => has(name));
  // A trace of Unreal 4 can have what the engine counted, and no blocks: then nothing else has figures.
  const isOfTags = has("tags") && !totals.allocations;
  if (isOfTags) byId("timeline").before(section);
  if (!state.table || !has(state.table)) state.table = overview.isOfFunctions ? "functions" : isOfTags ? "tags" : (tables[0]?.[0] ?? "scopes");
  const tabs = choice("Table", tables.map(([name, text]) => [name, text] as const), () => state.table as TableName, (table) => change({ table, sort: "", ascending: false }));
  const find = el("input", {
    type: "search", id: "table-search", placeholder: "Find rows", "aria-label": "Find rows of the table", spellcheck: "false", value: state.find,
    oninput: settled(120, () => change({ find: find.value })),
  });
  const own = el("input", { type: "checkbox", onchange: () => change({ own: own.checked ? "off" : "on" }) });
  const ownLabel = el("label", { class: "check", title: "Also what is in the scopes and groups inside, and what a function called allocated" }, own, "with all inside");
  info = el("output", { class: "sum", for: "table-search" });
  head = el("div", { class: "head", role: "row" });
  body = el("div", { class: "rows", role: "presentation" });
  scroller = el("div", {
    class: "grid", role: "grid", tabindex: "0", "aria-label": "Rows. Arrow keys move, Enter shows a row in the graph.",
  }, head, body);
  fill(
    section,
    el("div", { class: "bar" }, el("h2", { id: "tables-title" }, "Tables"), tabs.element, ownLabel, el("span", { class: "search" }, find, info)),
    scroller,
  );
  const update = () => {
    tabs.update();
    own.checked = !isOwn();
    ownLabel.hidden = !/scopes|groups|functions|crates/.test(state.table);
    if (document.activeElement !== find) find.value = state.find;
    restart();
  };
  watch(["table", "sort", "ascending", "own", "find", "filter", "frames"], update);
  watch(["metric"], () => state.sort === "" && restart());
  scroller.addEventListener("scroll", perFrame(render), { passive: true });
  scroller.addEventListener("keydown", onKey);
  addEventListener("beforeprint", () => printAll());
  addEventListener("afterprint", () => render());
  new ResizeObserver(perFrame(render)).observe(scroller);
  update();
}

/** Whether rows have their own figures only: functions at first, since each that they call has a row, too. */
const isOwn = () => (state.own ? state.own === "on" : /functions|crates/.test(state.table));

/** Rows are asked for anew: the figures are others. */
export function restart(): void {
  generation += 1;
  parts = new Map();
  shape = null;
  current = 0;
  scroller.scrollTop = 0;
  void fetchPart(0);
}

/** The column that rows are sorted by, unless another is chosen: that of the figure that the graph shows. */
const sortKey = () => state.sort || ({ blocks: "bytes", tags: "last_bytes" }[state.table as string] ?? metric().column);

function query(from: number, to: number): TableQuery {
  return {
    dataset: currentDataset(), table: state.table as TableName, filter: state.filter, search: state.find, sort: sortKey(),
    descending: !state.ascending, inclusive: !isOwn(), allFrames: state.frames, from, to,
  };
}

async function fetchPart(number: number): Promise<void> {
  if (parts.has(number)) return;
  const of = generation;
  const part = await ask<TablePart>({ do: "table", query: query(number * PART, (number + 1) * PART) });
  if (of !== generation) return;
  parts.set(number, part);
  if (!shape) {
    shape = part;
    renderHead();
    announce(`${count(part.total)} rows`);
  }
  render();
}

const heading = (key: string): [string, string] => (key === "name" ? ["name", ""] : (COLUMNS[key] ?? [key.replaceAll("_", " "), ""]));

function renderHead(): void {
  const { columns, total } = shape!;
  const noun = NAMES.find(([name]) => name === state.table)![1].toLowerCase();
  info.textContent = state.find ? `${count(total)} found` : `${count(total)} ${noun}`;
  scroller.setAttribute("aria-rowcount", String(total + 1));
  scroller.style.setProperty("--columns", String(columns.length));
  const cell = (key: string) => {
    const [text, about] = heading(key);
    const isBy = key === sortKey();
    const order = isBy ? (state.ascending ? "ascending" : "descending") : "none";
    const sort = () => change({ sort: key, ascending: isBy ? !state.ascending : key === "name" });
    return el("div", { role: "columnheader", "aria-sort": order, class: key === "name" ? "name" : "" },
      el("button", { type: "button", title: about || undefined, "data-sort": key, onclick: sort }, text, isBy ? (state.ascending ? " ▲" : " ▼") : ""));
  };
  fill(head, ...["name", ...columns].map(cell));
}

function render(): void {
  if (!shape) return;
  const { total } = shape;
  const height = scroller.clientHeight - head.offsetHeight;
  const first = Math.max(Math.floor(scroller.scrollTop / ROW) - 4, 0);
  const last = Math.min(Math.ceil((scroller.scrollTop + height) / ROW) + 4, total);
  body.style.height = `${Math.max(total, 1) * ROW}px`;
  const rows: HTMLElement[] = [];
  for (let at = first; at < last; at++) {
    const row = parts.get(Math.floor(at / PART))?.rows[at % PART];
    if (row) rows.push(rowElement(row, at));
    else void fetchPart(Math.floor(at / PART));
  }
  if (total === 0) rows.push(el("p", { class: "empty" }, state.find ? `No row has “${visible(state.find)}” in it.` : "There are no rows."));
  fill(body, ...rows);
}

function rowElement(row: TableRow, at: number): HTMLElement {
  const { columns, largest } = shape!;
  const name = visible(row.name);
  const cells = columns.map((key) => {
    const value = row.figures[key];
    const isTime = key.endsWith("_at_ns");
    const text = value || isTime ? figure(key, value) : "·";
    const cell = el("div", { role: "gridcell", class: value ? "" : "none", title: value ? cellTitle(key, value) : undefined }, text);
    if (key === sortKey() && value > 0 && !isTime) {
      cell.append(el("i", { class: `part ${partColor(key)}`, style: `width:${((100 * value) / largest[key]).toFixed(1)}%` }));
    }
    return cell;
  });
  const note = row.note && el("span", { class: "note" }, visible(row.note));
  const element = el(
    "div",
    {
      role: "row", class: `row${row.link ? " linked" : ""}${at === current ? " current" : ""}`, "aria-rowindex": at + 2,
      style: `top:${at * ROW}px`, onclick: () => ((current = at), render(), row.link && follow(row.link)),
    },
    el("div", { role: "rowheader", class: "name", title: name }, inLine(short(row.name)), note || null),
    ...cells,
  );
  return element;
}

function cellTitle(key: string, value: number): string {
  const whole = { live_bytes_at_peak: totals.peak_bytes, live_blocks_at_peak: totals.blocks_at_peak }[key] ?? totals[key];
  const share = whole && currentDataset() === "report" ? `, ${percent(value, whole)} of all` : "";
  return `${Math.round(value).toLocaleString("en-US")}${/bytes/.test(key) ? " B" : ""}${share}`;
}

const partColor = (key: string) => METRICS.find(({ column }) => column === key)?.color ?? (key === "peak_bytes" ? "peak" : "live");

function onKey(event: KeyboardEvent): void {
  if (!shape || event.target !== scroller) return;
  const page = Math.max(Math.floor(scroller.clientHeight / ROW) - 2, 1);
  const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -shape.total, End: shape.total };
  if (event.key in steps) {
    current = Math.min(Math.max(current + steps[event.key], 0), shape.total - 1);
    const top = current * ROW;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    const bottom = top + ROW - (scroller.clientHeight - head.offsetHeight);
    if (bottom > scroller.scrollTop) scroller.scrollTop = bottom;
    render();
    const row = parts.get(Math.floor(current / PART))?.rows[current % PART];
    if (row) announce(`${visible(row.name)}: ${figure(sortKey(), row.figures[sortKey()] ?? 0)}`);
  } else if (event.key === "Enter") {
    const row = parts.get(Math.floor(current / PART))?.rows[current % PART];
    if (row?.link) follow(row.link);
  } else return;
  event.preventDefault();
}

/** On paper: the first rows, whatever is scrolled to. */
function printAll(): void {
  if (!shape) return;
  const rows = parts.get(0)?.rows.slice(0, PRINTED) ?? [];
  body.style.height = `${rows.length * ROW}px`;
  fill(body, ...rows.map((row, at) => rowElement(row, at)));
}
