// Bytes, blocks and rates over time: uPlot draws, this says what.

import uPlot from "uplot";
import { announce, byId, choice, el, fill, perFrame } from "./dom";
import type { Overview, Series } from "./messages";
import { change, state, watch } from "./state";
import { brief, bytes, count, time, visible } from "./text";
import { color, onTheme } from "./theme";

const THREAD_COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a81f", "#6b4c9a"];
const AXIS_WIDTH = 74;

interface Marker {
  name: string;
  at: number;
  kind: "bookmark" | "a" | "b";
}

/** In server mode: what a drag or a key sets. */
export interface Marking {
  a: number | null;
  b: number | null;
  set(which: "a" | "b", at_ns: number): void;
  between(a_ns: number, b_ns: number): void;
}

let redraw = () => {};
export const redrawTimeline = () => redraw();

export function showTimeline(overview: Overview, marking: Marking | null): void {
  const section = byId("timeline");
  const { series } = overview;
  section.hidden = !series || series.at_ns.length < 2;
  if (!series || section.hidden) return;
  const hasThreads = series.threads.length > 1;
  const charts = choice(
    "What the timeline shows",
    [
      ["bytes", "bytes", "Live bytes"],
      ["blocks", "blocks", "Live blocks"],
      ["stacked", "threads", "Live bytes by the thread that allocated them, stacked"],
      ["lines", "lines", "Live bytes by the thread that allocated them, a line for each"],
    ],
    () => state.chart,
    (chart) => change({ chart }),
  );
  charts.update((chart) => (/stacked|lines/.test(chart) && !hasThreads ? "The trace has one thread" : false));
  const resident = overview.rssSeries && readings(overview.rssSeries, Array.from(series.at_ns));
  const mostResident = overview.rssSeries ? overview.rssSeries.rss_bytes.reduce((most, bytes) => Math.max(most, bytes), 0) : 0;
  const rssBox = el("input", { type: "checkbox", onchange: () => change({ rss: rssBox.checked ? "on" : "off" }) });
  const rssLabel = resident && el(
    "label", { class: "check rss", title: "The resident memory of the process (RSS): live blocks, and all else that it has in memory" },
    rssBox, el("i", {}), "resident (RSS)",
  );
  const showsResident = () =>
    state.chart !== "blocks" && (state.rss === "on" || (state.rss === "" && mostResident <= 5 * (overview.totals.peak_bytes ?? 0)));
  const readout = el("div", { class: "readout" });
  const plots = el("div", {
    class: "plots", tabindex: "0", role: "group",
    "aria-label": "Timeline. Arrow keys move the cursor, plus and minus zoom, 0 shows everything.",
    onkeydown: (event: KeyboardEvent) => onKey(event),
  });
  const reset = el("button", { type: "button", class: "quiet", onclick: () => change({ from: -1, to: -1 }) }, "show all");
  fill(
    section,
    el("div", { class: "bar" }, el("h2", { id: "timeline-title" }, "Timeline"), charts.element, rssLabel, reset, readout),
    plots,
  );

  const drawn: uPlot[] = [];
  const [first, last] = [series.at_ns[0], series.at_ns.at(-1)!];
  const x = Array.from(series.at_ns);
  const rates = { bytes: rate(series, "allocated_bytes"), calls: rate(series, "allocations", "reallocations") };
  const old = overview.oldSeries && sampled(overview.oldSeries, x);

  const build = () => {
    drawn.splice(0).forEach((plot) => plot.destroy());
    const width = Math.max(plots.clientWidth, 240);
    const at = { x, series, old, resident: showsResident() ? resident : null, rates, overview, marking };
    rssBox.checked = showsResident();
    rssBox.disabled = state.chart === "blocks";
    const sync = uPlot.sync("time");
    for (const options of [main(at, width), below(at, width)]) {
      options.opts.cursor = {
        ...options.opts.cursor,
        sync: { key: sync.key, setSeries: false, scales: ["x", null] },
        drag: { x: true, y: false, setScale: false },
        points: { size: 7 },
      };
      options.opts.hooks = { ...options.opts.hooks, setSelect: [onSelect], setCursor: [onCursor] };
      const plot = new uPlot(options.opts, options.data, plots);
      plot.over.addEventListener("dblclick", () => change({ from: -1, to: -1 }));
      drawn.push(plot);
    }
    zoom();
    describe(null);
  };
  const zoom = () => {
    const [min, max] = state.to > state.from && state.from >= 0 ? [state.from, state.to] : [first, last];
    drawn.forEach((plot) => plot.setScale("x", { min, max }));
    reset.hidden = min === first && max === last;
  };
  const onSelect = (plot: uPlot, isShift = false) => {
    const { left, width } = plot.select;
    if (width < 3) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")].map(Math.round);
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (marking && !shiftIsDown && !isShift) marking.between(from, to);
    else change({ from: Math.max(from, first), to: Math.min(to, last) });
  };
  const onCursor = (plot: uPlot) => {
    if (plot === drawn[0]) describe(plot.cursor.idx ?? null);
  };
  const describe = (index: number | null) => {
    const at = index ?? x.length - 1;
    const of = (key: string) => series.columns[key]?.[at] ?? 0;
    const parts = [
      el("span", { class: "at" }, index === null ? `end, ${time(x[at] - 0)}` : time(x[at])),
      el("span", { class: "live" }, bytes(of("live_bytes"))),
      el("span", {}, `${count(of("live_blocks"))} ${of("live_blocks") === 1 ? "block" : "blocks"}`),
      resident?.[at] != null && el("span", { class: "rss" }, `resident ${bytes(resident[at]!)}`),
      old && el("span", { class: "before" }, "- - before: ", old.live_bytes[at] == null ? "ended" : `${bytes(old.live_bytes[at])}, ${count(old.live_blocks[at] ?? 0)} blocks`),
      el("span", { class: "allocated" }, `${bytes(rates.bytes[at] ?? 0)}/s`),
      el("span", { class: "count" }, `${brief(rates.calls[at] ?? 0)} calls/s`),
    ];
    fill(readout, ...parts);
    if (/stacked|lines/.test(state.chart)) {
      const threads = series.threads.slice(0, THREAD_COLORS.length);
      readout.append(...threads.map((thread, number) => {
        const swatch = el("i", { style: `background:${THREAD_COLORS[number]}` });
        return el("span", { class: "thread" }, swatch, `${visible(thread.name)} ${bytes(thread.live_bytes[at])}`);
      }));
    }
  };
  const onKey = (event: KeyboardEvent) => {
    const plot = drawn[0];
    const { min = first, max = last } = plot.scales.x as { min?: number; max?: number };
    const index = plot.cursor.idx ?? x.length >> 1;
    const span = max - min;
    const middle = Math.min(Math.max(x[index], min), max);
    const step = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const next = Math.min(Math.max(index + (event.key === "ArrowLeft" ? -step : step), 0), x.length - 1);
      drawn.forEach((one) => one.setCursor({ left: one.valToPos(x[next], "x"), top: 10 }));
      announce(readout.textContent ?? "");
    } else if (event.key === "+" || event.key === "=") {
      change({ from: Math.round(middle - span / 4), to: Math.round(middle + span / 4) });
    } else if (event.key === "-") {
      const [from, to] = [Math.max(middle - span, first), Math.min(middle + span, last)];
      change(from === first && to === last ? { from: -1, to: -1 } : { from: Math.round(from), to: Math.round(to) });
    } else if (event.key === "0") change({ from: -1, to: -1 });
    else if (marking && (event.key === "a" || event.key === "b")) marking.set(event.key, Math.round(middle));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  build();
  redraw = perFrame(build);
  watch(["chart", "rss"], () => {
    charts.update((chart) => (/stacked|lines/.test(chart) && !hasThreads ? "The trace has one thread" : false));
    build();
  });
  watch(["from", "to"], zoom);
  onTheme(redraw);
  let lastWidth = plots.clientWidth;
  new ResizeObserver(() => {
    if (plots.clientWidth === lastWidth) return;
    lastWidth = plots.clientWidth;
    redraw();
  }).observe(plots);
}

let shiftIsDown = false;
for (const type of ["pointerdown", "pointerup"]) {
  addEventListener(type, (event) => (shiftIsDown = (event as PointerEvent).shiftKey), true);
}

/** The old trace of a comparison, at the same times since its start; null after its end. */
type Old = Record<"live_bytes" | "live_blocks", (number | null)[]>;

function sampled({ at_ns, columns }: Series, x: number[]): Old {
  const of = (column: Float64Array) => {
    let next = 0;
    return x.map((time) => {
      while (next < at_ns.length && at_ns[next] <= time) next++;
      return next < at_ns.length ? (column[next - 1] ?? 0) : at_ns[next - 1] === time ? column[next - 1] : null;
    });
  };
  return { live_bytes: of(columns.live_bytes), live_blocks: of(columns.live_blocks) };
}

/** At each of these times: the resident memory when it was last read; null before it was. */
function readings({ at_ns, rss_bytes }: { at_ns: Float64Array; rss_bytes: Float64Array }, x: number[]): (number | null)[] {
  let next = 0;
  return x.map((time) => {
    while (next < at_ns.length && at_ns[next] <= time) next++;
    return next > 0 ? rss_bytes[next - 1] : null;
  });
}

interface Drawn {
  x: number[];
  series: Series;
  old: Old | null;
  resident: (number | null)[] | null;
  rates: { bytes: number[]; calls: number[] };
  overview: Overview;
  marking: Marking | null;
}

/** Spans of time that rates are of: as many as can be told apart. */
const SPANS = 240;

/** By point: how much of these came per second, in the span of time around it. A clock that is read rarely gives many points
 * one time, so the growth from one point to the next says little. */
function rate(series: Series, ...keys: string[]): number[] {
  const at = series.at_ns;
  const duration = at[at.length - 1] - at[0];
  const sum = Array.from(at, (_, point) => keys.reduce((total, key) => total + (series.columns[key]?.[point] ?? 0), 0));
  const rates = new Array<number>(at.length).fill(0);
  for (let from = 0; from + 1 < at.length; ) {
    let to = from + 1;
    while (to + 1 < at.length && at[to] - at[from] < duration / SPANS) to += 1;
    // What came at one time belongs to it as a whole.
    while (to + 1 < at.length && at[to + 1] === at[to]) to += 1;
    const growth = (sum[to] - sum[from]) / (Math.max(at[to] - at[from], 1) / 1e9);
    rates.fill(growth, from + 1, to + 1);
    from = to;
  }
  rates[0] = rates[1] ?? 0;
  return rates;
}

function axis(scale: string, side: 1 | 3, values: (value: number) => string, name: string): uPlot.Axis {
  return {
    scale, side, size: AXIS_WIDTH, stroke: color(name), font: "11px system-ui, sans-serif",
    grid: side === 3 ? { stroke: color("grid"), width: 1 } : { show: false },
    ticks: { stroke: color("grid"), width: 1, size: 4 },
    values: (_, splits) => splits.map((value) => (value == null ? "" : values(value))),
  };
}

/** Bytes have round figures in powers of two. */
function byteSplits(_: uPlot, __: number, min: number, max: number, space: number): number[] {
  void space;
  const raw = (max - min) / 4;
  const step = raw <= 1 ? 1 : 2 ** Math.ceil(Math.log2(raw));
  const splits: number[] = [];
  for (let at = Math.ceil(min / step) * step; at <= max; at += step) splits.push(at);
  return splits;
}

function xAxis(show: boolean): uPlot.Axis {
  return {
    show: true, stroke: color("muted"), font: "11px system-ui, sans-serif", size: show ? 26 : 4,
    grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1, size: 4 },
    values: (_, splits) => splits.map((value) => (show ? time(value) : "")),
  };
}

const range = (_: uPlot, __: number, max: number): uPlot.Range.MinMax => [0, max > 0 ? max * 1.16 : 1];

interface Chart {
  opts: uPlot.Options;
  data: uPlot.AlignedData;
}

function main({ x, series, old, resident, overview, marking }: Drawn, width: number): Chart {
  const { chart } = state;
  const lines: uPlot.Series[] = [{}];
  const data: (number[] | (number | null)[])[] = [x];
  const bands: uPlot.Band[] = [];
  const isBlocks = chart === "blocks";
  if (chart === "stacked" || chart === "lines") {
    const sum = new Array<number>(x.length).fill(0);
    const threads = series.threads.slice(0, THREAD_COLORS.length);
    const curves = threads.map((thread) => Array.from(thread.live_bytes, (value, at) => (chart === "lines" ? value : (sum[at] += value))));
    // The outermost curve of a stack is drawn first.
    const order = threads.map((_, at) => (chart === "stacked" ? threads.length - 1 - at : at));
    for (const at of order) {
      const of = THREAD_COLORS[at];
      lines.push({ label: visible(threads[at].name), stroke: of, width: 1.25, fill: chart === "stacked" ? `${of}55` : undefined, points: { show: false } });
      data.push(curves[at]);
    }
    if (chart === "stacked") for (let at = 1; at < order.length; at++) bands.push({ series: [at, at + 1] });
  } else {
    const key = isBlocks ? "live_blocks" : "live_bytes";
    const peaks = series.columns.peak_bytes;
    if (!isBlocks && peaks) {
      lines.push({ label: "largest between", stroke: color("peak"), width: 1, points: { show: false } });
      data.push(Array.from(peaks, (peak, at) => Math.max(peak, series.columns.live_bytes[at])));
    }
    const of = color("live");
    lines.push({ label: key, stroke: of, width: 1.5, fill: `${of}33`, points: { show: false } });
    data.push(Array.from(series.columns[key]));
    if (old) {
      lines.push({ label: `${key} before`, stroke: color("ink"), width: 1.25, dash: [5, 3], points: { show: false } });
      data.push(old[key]);
    }
  }
  if (resident) {
    lines.push({ label: "resident", stroke: color("rss"), width: 1.5, paths: held(), points: { show: false } });
    data.push(resident);
  }
  const markers: Marker[] = overview.bookmarks.map(({ name, at_ns }) => ({ name: visible(name), at: at_ns, kind: "bookmark" }));
  if (marking?.a != null) markers.push({ name: "A", at: marking.a, kind: "a" });
  if (marking?.b != null) markers.push({ name: "B", at: marking.b, kind: "b" });
  const peak = { at: overview.totals.peak_bytes_at_ns ?? 0, value: overview.totals.peak_bytes ?? 0 };
  const opts: uPlot.Options = {
    width, height: 200, legend: { show: false }, padding: [18, 26, 0, 0],
    scales: { x: { time: false }, y: { range } },
    axes: [xAxis(false), { ...axis("y", 3, isBlocks ? brief : bytes, "muted"), ...(isBlocks ? {} : { splits: byteSplits }) }],
    series: lines, bands,
    hooks: { draw: [(plot) => drawMarkers(plot, markers, isBlocks ? null : peak)] },
  };
  return { opts, data: data as uPlot.AlignedData };
}

/** A reading holds until the next. */
const held = () => uPlot.paths.stepped!({ align: 1 });

/** A rate holds since the point before. */
const steps = () => uPlot.paths.stepped!({ align: -1 });

function below({ x, rates }: Drawn, width: number): Chart {
  const [green, purple] = [color("allocated"), color("count")];
  const opts: uPlot.Options = {
    width, height: 108, legend: { show: false }, padding: [6, 26, 0, 0],
    scales: { x: { time: false }, y: { range }, calls: { range } },
    axes: [
      xAxis(true),
      { ...axis("y", 3, (value) => `${bytes(value)}/s`, "allocated"), splits: byteSplits, size: AXIS_WIDTH },
    ],
    series: [
      {},
      { label: "allocated per second", stroke: green, width: 1.25, fill: `${green}33`, paths: steps(), points: { show: false } },
      { label: "calls per second", scale: "calls", stroke: purple, width: 1, paths: steps(), points: { show: false } },
    ],
  };
  return { opts, data: [x, rates.bytes, rates.calls] };
}

function drawMarkers(plot: uPlot, markers: Marker[], peak: { at: number; value: number } | null): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const { min = 0, max = 0 } = plot.scales.x as { min?: number; max?: number };
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.direction = "ltr";
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  let free = -Infinity;
  for (const { name, at, kind } of markers) {
    if (at < min || at > max) continue;
    const left = plot.valToPos(at, "x", true);
    ctx.strokeStyle = ctx.fillStyle = kind === "bookmark" ? color("muted") : color("grew");
    ctx.setLineDash(kind === "bookmark" ? [4 * ratio, 3 * ratio] : []);
    ctx.lineWidth = (kind === "bookmark" ? 1 : 2) * ratio;
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
    const width = ctx.measureText(name).width;
    const text = Math.min(left - 3 * ratio, bbox.left + bbox.width - width);
    if (text < free) continue;
    ctx.fillText(name, text, bbox.top - 5 * ratio);
    free = text + width + 8 * ratio;
  }
  if (peak && peak.value > 0 && peak.at >= min && peak.at <= max) {
    const [left, top] = [plot.valToPos(peak.at, "x", true), plot.valToPos(peak.value, "y", true)];
    ctx.setLineDash([]);
    ctx.fillStyle = color("peak");
    ctx.beginPath();
    ctx.arc(left, top, 4 * ratio, 0, 7);
    ctx.fill();
    ctx.fillStyle = color("ink");
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    const label = `peak ${bytes(peak.value)}`;
    const width = ctx.measureText(label).width;
    const text = Math.min(Math.max(left - width / 2, bbox.left + 2), bbox.left + bbox.width - width);
    ctx.fillText(label, text, top - 8 * ratio);
  }
  ctx.restore();
}
