// Reads the document, and answers what the page asks of it: in a worker, so that the page itself never computes for long, or
// in the page, if the document is small.

import { gunzipSync } from "fflate";
import type { PageDocument, Row, Timeline } from "../document";
import type { Overview, Query, Request, Series } from "../messages";
import { inflate, numbers, unpacked } from "./decode";
import { bucketsOf, details, stackOf } from "./details";
import { Forests, threadName } from "./forest";
import { flame, tree, type Made } from "./layout";
import { Model } from "./model";
import { Graph } from "./nodes";
import { shownPath } from "../text";
import { Tables } from "./tables";

interface Loaded {
  model: Model;
  forests: Forests;
  tables: Tables;
}

let loaded: Loaded | null = null;
/** The graph that was drawn last, and what it was made for. */
let graph: { key: string; graph: Graph } | null = null;
const views: Made[] = [];
let lastView = 0;

type Load = Extract<Request, { do: "load" }>;

async function load(request: Load): Promise<Overview> {
  return read(request.base64 !== undefined ? await inflate(request.base64) : new TextDecoder().decode(request.json));
}

/** Reads a small document at once: the page has its figures before its load event. */
export function loadNow(base64: string): Overview {
  return read(new TextDecoder().decode(gunzipSync(unpacked(base64))));
}

function read(text: string): Overview {
  const doc = JSON.parse(text) as PageDocument;
  if (!doc.schema?.startsWith("memledger.page/")) throw new Error("This document is not one of memledger.page/1.");
  nameOutermost(doc);
  const model = new Model(doc);
  const forests = new Forests(model);
  loaded = { model, forests, tables: new Tables(model, forests) };
  graph = null;
  views.length = 0;
  return overview(model);
}

/** Has the outermost scope shown as what it is. */
function nameOutermost({ by_scope, largest_live, findings, peak_by, diff }: PageDocument): void {
  const changes = diff?.tables.filter(({ by }) => by === "scope").flatMap(({ rows }) => rows) ?? [];
  const rows: { path?: string[] }[] = [by_scope, largest_live, (findings ?? []).map(({ place }) => place), peak_by ? [peak_by.place] : [], changes].flat();
  for (const row of rows) if (row.path) row.path = shownPath(row.path);
}

function overview(model: Model): Overview {
  const { doc, hasStacks } = model;
  const rows = {
    scopes: doc.by_scope.length,
    groups: doc.by_group.length,
    names: doc.by_name.length,
    threads: doc.by_thread.length,
    sizes: doc.by_size.length,
    functions: hasStacks ? 1 : 0,
    stacks: hasStacks ? 1 : 0,
    crates: hasStacks ? 1 : 0,
    blocks: doc.largest_live.length,
    tags: doc.llm_tags?.length ?? 0,
  };
  return {
    trace: doc.trace,
    moment: doc.moment ?? null,
    totals: doc.totals,
    resident: doc.resident ?? null,
    losses: doc.losses,
    after_report: doc.after_report ?? {},
    bookmarks: doc.bookmarks,
    notes: doc.notes,
    peakBy: doc.peak_by ?? null,
    findings: doc.findings ?? null,
    noneFound: doc.none_found ?? "",
    sampling: doc.stack_sampling_bytes ?? null,
    threads: doc.by_thread.map(threadName),
    rowNames: {
      scope: doc.by_scope.map(({ path = [] }) => path.join(" > ")),
      name: doc.by_name.map(({ group = [], name = "" }) => [...group, name].join(" / ")),
    },
    series: series(doc.timeline, doc.by_thread),
    diff: doc.diff ?? null,
    oldSeries: series(doc.old_timeline ?? null, []),
    rssSeries: doc.rss_timeline
      ? { at_ns: numbers(doc.rss_timeline.at_ns), rss_bytes: numbers(doc.rss_timeline.rss_bytes) }
      : null,
    hasStacks,
    isOfFunctions: hasStacks && rows.scopes < 2 && rows.names < 2,
    shorts: doc.short ? [...numbers(doc.short.string)].map((of, at) => [doc.strings[of], doc.short!.text[at]]) : [],
    rows,
    buckets: model.buckets,
  };
}

function series(timeline: Timeline | null, by_thread: Row[]): Series | null {
  if (!timeline) return null;
  const { at_ns, threads, ...columns } = timeline;
  return {
    at_ns: numbers(at_ns),
    columns: Object.fromEntries(
      Object.entries(columns).map(([key, column]) => [key, numbers(column)]),
    ),
    threads: (by_thread.length ? (threads ?? []) : []).map((thread) => ({
      thread: thread.thread,
      name: threadName(by_thread[thread.thread]),
      live_bytes: numbers(thread.live_bytes),
      allocated_bytes: numbers(thread.allocated_bytes),
    })),
  };
}

function graphOf({ model, forests }: Loaded, query: Query): Graph {
  // Zooming and searching keep the graph.
  const { focus: _, search, ...kept } = query;
  const key = JSON.stringify(kept);
  if (graph?.key !== key) graph = { key, graph: new Graph(model, forests.get(query.by, query.allFrames, query.lines), query) };
  graph.graph.query.search = search;
  graph.graph.query.focus = query.focus;
  return graph.graph;
}

/** Keeps what was drawn, so that it can be pointed at. */
function kept(view: Made) {
  views.push(view);
  if (views.length > 4) views.shift();
  return view.layout;
}

export function answer(request: Request): unknown {
  if (request.do === "load") return load(request);
  if (!loaded) throw new Error("The document has not been read.");
  const { model, forests, tables } = loaded;
  const viewOf = (number: number) => views.find(({ layout }) => layout.view === number);
  switch (request.do) {
    case "flame":
      return kept(flame(graphOf(loaded, { ...request.query }), request.width, ++lastView));
    case "treemap":
      return kept(tree(graphOf(loaded, { ...request.query }), request.width, request.height, ++lastView));
    case "details": {
      const view = viewOf(request.view);
      return view ? details(model, view, request.node) : null;
    }
    case "buckets": {
      const view = viewOf(request.view);
      return view ? bucketsOf(view, request.node) : [];
    }
    case "table":
      return tables.part(request.query);
    case "focus":
      return request.link.map((text) => model.labels.number(text));
    case "stack":
      return stackOf(model, request.bucket);
    case "answer":
      model.setAnswer(request.answer);
      forests.forget("answer");
      tables.forget();
      graph = null;
      return null;
  }
}
