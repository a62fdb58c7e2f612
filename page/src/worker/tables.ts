// Rows of tables: a table is made once as columns of numbers, sorted and searched here, and handed out in parts.

import type { Figures, Row } from "../document";
import type { Link, TablePart, TableQuery } from "../messages";
import { threadName, type Forests } from "./forest";
import { isUnnamed, type Model } from "./model";

interface Table {
  names: string[];
  lower: string[] | null;
  notes?: (string | undefined)[];
  columns: Map<string, Float64Array>;
  link: (row: number) => Link | undefined;
  /** Rows that were asked for last, in their order. */
  order: { of: string; rows: number[] } | null;
}

const ROW_COLUMNS = [
  "live_bytes", "live_blocks", "live_bytes_at_peak", "live_blocks_at_peak", "peak_bytes", "allocated_bytes",
  "allocations", "reallocations", "frees", "short_lived",
];

export class Tables {
  readonly #made = new Map<string, Table>();

  constructor(
    readonly model: Model,
    readonly forests: Forests,
  ) {}

  forget(): void {
    for (const key of this.#made.keys()) if (JSON.parse(key)[0] !== "report") this.#made.delete(key);
  }

  part(query: TableQuery): TablePart {
    const table = this.#table(query);
    const keys = [...table.columns.keys()];
    const order = ordered(table, query);
    const largest: Record<string, number> = {};
    for (const [key, column] of table.columns) {
      let most = 0;
      for (const value of column) if (value > most) most = value;
      largest[key] = most;
    }
    const rows = order.slice(query.from, query.to).map((row) => ({
      name: table.names[row],
      note: table.notes?.[row],
      figures: Object.fromEntries(keys.map((key) => [key, table.columns.get(key)![row]])),
      link: table.link(row),
    }));
    return { total: order.length, columns: keys, rows, largest };
  }

  #table(query: TableQuery): Table {
    const { dataset, table, filter, inclusive, allFrames } = query;
    const key = JSON.stringify([dataset, table, filter, inclusive, allFrames]);
    let made = this.#made.get(key);
    if (!made) {
      made = this.#make(query);
      if (this.#made.size > 24) this.#made.clear();
      this.#made.set(key, made);
    }
    return made;
  }

  #make(query: TableQuery): Table {
    const { doc } = this.model;
    const { table } = query;
    if (table === "functions" || table === "stacks" || table === "crates") return this.#calls(query);
    if (table === "blocks") return this.#blocks();
    if (table === "tags") return this.#tags();
    if (query.dataset !== "report" || Object.keys(query.filter).length) {
      if (table !== "sizes") return this.#summed(query);
    }
    const inclusive = query.inclusive && (table === "scopes" || table === "groups");
    const rows = { scopes: doc.by_scope, groups: doc.by_group, names: doc.by_name, threads: doc.by_thread, sizes: doc.by_size };
    const figures = (row: Row): Figures => (inclusive ? { ...row.inclusive } : (row as unknown as Figures));
    return this.#ofRows(rows[table], query, (key) => (row) => figures(row)[key]);
  }

  #ofRows(rows: Row[], query: TableQuery, of: (key: string) => (row: Row, at: number) => number): Table {
    const columns = new Map<string, Float64Array>();
    const keys = query.dataset === "report" ? ROW_COLUMNS : [...this.model.dataset(query.dataset).columns.keys()];
    for (const key of keys) {
      const value = of(key);
      if (rows.some((row, at) => value(row, at) !== undefined)) {
        columns.set(key, Float64Array.from(rows, (row, at) => value(row, at) ?? 0));
      }
    }
    return {
      names: rows.map((row) => rowName(query.table, row)),
      lower: null, order: null,
      columns,
      link: (at) => rowLink(query.table, rows[at], at),
    };
  }

  /** Tables of part of the buckets: of an answer, or behind a filter. Their own peaks are not known. */
  #summed(query: TableQuery): Table {
    const { model } = this;
    const data = model.dataset(query.dataset);
    const mask = model.mask(query.filter);
    const by = { scopes: model.scope, names: model.name, threads: model.thread, groups: null }[query.table as string];
    const rows = { scopes: model.doc.by_scope, names: model.doc.by_name, threads: model.doc.by_thread, groups: model.doc.by_group };
    const all = rows[query.table as keyof typeof rows];
    const groupOf = new Map(model.doc.by_group.map((row, at) => [JSON.stringify(row.group), at]));
    const groups = model.doc.by_name.map(({ group }) => groupOf.get(JSON.stringify(group)) ?? 0);
    const rowOf = (bucket: number) => (by ? by[bucket] : groups[model.name[bucket]]);
    const sums = new Map<string, Float64Array>();
    for (const [key, column] of data.columns) {
      const sum = new Float64Array(all.length);
      for (let bucket = 0; bucket < column.length; bucket++) if (!mask || mask[bucket]) sum[rowOf(bucket)] += column[bucket];
      sums.set(key, query.inclusive && (query.table === "scopes" || query.table === "groups") ? withInside(all, sum) : sum);
    }
    const some = all.flatMap((row, at) => ([...sums.values()].some((sum) => sum[at]) ? [{ row, at }] : []));
    const table = this.#ofRows(some.map(({ row }) => row), query, (key) => (_, at) => sums.get(key)?.[some[at].at] as number);
    return { ...table, link: (at) => rowLink(query.table, some[at].row, some[at].at) };
  }

  /** Functions and crates, with what they allocated and with what they called, or whole stacks. */
  #calls({ dataset, table, filter, inclusive, allFrames }: TableQuery): Table {
    const { model } = this;
    const forest = this.forests.get(table === "crates" ? "crate" : "stack", allFrames);
    const data = model.dataset(dataset);
    const { texts } = model.labels;
    const columns = new Map<string, Float64Array>();
    if (table === "stacks") {
      const keys = [...data.columns.keys()];
      const sums = keys.map((key) => forest.sums(data, key, filter, model).own);
      const nodes: number[] = [];
      for (let node = 1; node < forest.nodes; node++) if (sums.some((sum) => sum[node])) nodes.push(node);
      keys.forEach((key, at) => columns.set(key, Float64Array.from(nodes, (node) => sums[at][node])));
      const path = (node: number) => {
        const names: string[] = [];
        for (let at = node; at > 0; at = forest.parent[at]) names.push(texts[forest.label[at]]);
        return names;
      };
      const names = nodes.map((node) => path(node).join(" < "));
      return { names, lower: null, order: null, columns, link: (row) => ({ by: "stack", focus: path(nodes[row]).reverse() }) };
    }
    const rowOf = new Int32Array(texts.length).fill(-1);
    const rows: number[] = [];
    for (let node = 1; node < forest.nodes; node++) {
      const label = forest.label[node];
      if (rowOf[label] < 0) rowOf[label] = rows.push(label) - 1;
    }
    // A function that calls itself has what it allocated once.
    const isOutermost = inclusive ? outermost(forest.parent, forest.label, forest.start, forest.children) : null;
    for (const key of data.columns.keys()) {
      const sums = forest.sums(data, key, filter, model);
      const of = inclusive ? sums.inclusive : sums.own;
      const column = new Float64Array(rows.length);
      for (let node = 1; node < forest.nodes; node++) {
        if (!isOutermost || isOutermost[node]) column[rowOf[forest.label[node]]] += of[node];
      }
      columns.set(key, column);
    }
    const by = table === "crates" ? "crate" : "stack";
    const link = (row: number): Link => (by === "stack" ? { pivot: rows[row] } : { by, focus: [texts[rows[row]]] });
    return { names: rows.map((label) => texts[label]), lower: null, order: null, columns, link };
  }

  #blocks(): Table {
    const { largest_live: blocks } = this.model.doc;
    const name = ({ path, group, name }: (typeof blocks)[number]) =>
      isUnnamed(group, name) ? path.join(" > ") : `${path.join(" > ")} · ${[...group, name].join(" / ")}`;
    return {
      names: blocks.map(name),
      lower: null, order: null,
      notes: blocks.map(({ thread, address }) => `${thread ?? ""} ${address}`.trim()),
      columns: new Map([
        ["bytes", Float64Array.from(blocks, ({ bytes }) => bytes)],
        ["allocated_at_ns", Float64Array.from(blocks, ({ allocated_at_ns }) => allocated_at_ns)],
      ]),
      link: (row) => ({ by: "scope", focus: blocks[row].path }),
    };
  }

  /** What the engine counted: no sums of blocks. A name has its tracker if there is more than one. */
  #tags(): Table {
    const tags = this.model.doc.llm_tags ?? [];
    const isOne = tags.every(({ tracker }) => tracker === tags[0].tracker);
    const column = (of: (tag: (typeof tags)[number]) => number) => Float64Array.from(tags, of);
    return {
      names: tags.map(({ tracker, path }) => `${isOne ? "" : `${tracker}: `}${path.join(" > ")}`),
      lower: null, order: null,
      columns: new Map([
        ["last_bytes", column((tag) => tag.last_bytes)],
        ["tag_peak_bytes", column((tag) => tag.peak_bytes)],
        ["peak_at_ns", column((tag) => tag.peak_at_ns)],
        ["min_bytes", column((tag) => tag.min_bytes)],
        ["first_bytes", column((tag) => tag.first_bytes)],
        ["samples", column((tag) => tag.samples)],
      ]),
      link: () => undefined,
    };
  }
}

/** The rows with the text that is searched for, sorted. */
function ordered(table: Table, { search, sort, descending }: TableQuery): number[] {
  const of = JSON.stringify([search, sort, descending]);
  if (table.order?.of === of) return table.order.rows;
  const wanted = search.trim().toLowerCase();
  table.lower ??= table.names.map((name, at) => `${name} ${table.notes?.[at] ?? ""}`.toLowerCase());
  const rows: number[] = [];
  for (let row = 0; row < table.names.length; row++) {
    if (!wanted || table.lower[row].includes(wanted)) rows.push(row);
  }
  const by = table.columns.get(sort);
  const sign = descending ? -1 : 1;
  if (by) rows.sort((a, b) => sign * (by[a] - by[b]) || a - b);
  else if (sort === "name") rows.sort((a, b) => sign * compare(table.names[a], table.names[b]));
  table.order = { of, rows };
  return rows;
}

/** By node: whether no other one with its name is above it. */
function outermost(parent: Int32Array, label: Int32Array, start: Int32Array, children: Int32Array): Uint8Array {
  const found = new Uint8Array(parent.length);
  const open = new Int32Array(label.reduce((most, at) => Math.max(most, at), 0) + 1);
  const at = start.slice();
  let node = 0;
  for (;;) {
    if (at[node] < start[node + 1]) {
      node = children[at[node]++];
      found[node] = Number(open[label[node]] === 0);
      open[label[node]] += 1;
    } else if (node === 0) return found;
    else {
      open[label[node]] -= 1;
      node = parent[node];
    }
  }
}

function withInside(rows: Row[], own: Float64Array): Float64Array {
  const path = (row: Row) => row.path ?? row.group ?? [];
  const rowOf = new Map(rows.map((row, at) => [JSON.stringify(path(row)), at]));
  const sums = new Float64Array(own.length);
  rows.forEach((row, at) => {
    for (let length = path(row).length; length > 0; length--) {
      const outer = rowOf.get(JSON.stringify(path(row).slice(0, length)));
      if (outer !== undefined) sums[outer] += own[at];
    }
  });
  return sums;
}

// PERF: a collator takes some ten times as long, which matters from 100,000 names on.
const compare = (a: string, b: string) => (a < b ? -1 : Number(a > b));

function rowName(table: TableQuery["table"], row: Row): string {
  if (table === "scopes") return (row.path ?? []).join(" > ");
  if (table === "groups") return (row.group ?? []).join(" > ");
  if (table === "names") return `${(row.group ?? []).join(" > ")} / ${row.name}`;
  if (table === "threads") return threadName(row);
  const [min, max] = [row.min_bytes ?? 0, row.max_bytes];
  const number = (value: number) => value.toLocaleString("en-US");
  return max == null ? `from ${number(min)} B on` : `${number(min)} to ${number(max)} B`;
}

function rowLink(table: TableQuery["table"], row: Row, at: number): Link | undefined {
  if (table === "scopes") return { by: "scope", focus: row.path ?? [] };
  if (table === "groups") return { by: "group", focus: row.group ?? [] };
  if (table === "threads") return { filter: { thread: at } };
  if (table !== "names") return undefined;
  const { group = [], name = "" } = row;
  return { by: "group", focus: isUnnamed(group, name) ? group : [...group, name] };
}
