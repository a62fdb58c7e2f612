// Where the rectangles of a graph are, in pixels. Not more than what can be seen.

import { hierarchy, treemap, treemapSquarify, type HierarchyRectangularNode } from "d3-hierarchy";
import { FLAG, type Layout } from "../messages";
import type { Graph, Node } from "./nodes";

/** What is narrower is summed up. */
const MIN_WIDTH = 0.7;
const MAX_RECTANGLES = 24_000;
const MAX_LEVELS = 1_000;

interface Rectangle {
  node: Node | null;
  parent: number;
  depth: number;
  x: number;
  y: number;
  width: number;
  height: number;
  value: number;
  flags: number;
}

export interface Made {
  layout: Layout;
  nodes: (Node | null)[];
  graph: Graph;
}

/** Flame graph or icicle: one level per row, the widths are the figures. */
export function flame(graph: Graph, width: number, view: number): Made {
  const focus = graph.focus(graph.query.focus);
  const scale = focus.value > 0 ? width / focus.value : 0;
  const rectangles: Rectangle[] = [];
  let depth = 0;
  for (const node of lineage(focus)) {
    const flags = node === focus ? 0 : FLAG.inner;
    rectangles.push({ node, parent: depth - 1, depth, x: 0, y: depth, width, height: 1, value: node.value, flags });
    depth += 1;
  }
  let level = [rectangles.length - 1];
  let isCut = false;
  while (level.length && depth < MAX_LEVELS) {
    const next: number[] = [];
    for (const at of level) {
      const parent = rectangles[at];
      let x = parent.x;
      let rest = 0;
      const add = (node: Node | null, value: number) => {
        const flags = node ? 0 : FLAG.rest;
        const rectangle = { node, parent: at, depth, x, y: depth, width: value * scale, height: 1, value, flags };
        x += value * scale;
        return rectangles.push(rectangle) - 1;
      };
      for (const child of graph.children(parent.node!)) {
        if (child.value * scale < MIN_WIDTH) {
          rest += child.value;
          continue;
        }
        if (rest * scale >= MIN_WIDTH) add(null, rest);
        else x += rest * scale;
        rest = 0;
        next.push(add(child, child.value));
      }
      if (rest * scale >= MIN_WIDTH) add(null, rest);
      if (rectangles.length > MAX_RECTANGLES) isCut = true;
    }
    if (isCut) break;
    level = next;
    depth += 1;
  }
  return made("flame", graph, focus, rectangles, view, isCut || level.length > 0);
}

/** How deep a treemap nests below what is looked at, and how deep what has this part of all. */
const TREEMAP_LEVELS = 4;
const DEEPEST = 24;
const LARGE = 1 / 16;
const TITLE = 17;

interface Box {
  nodes: Node[];
  value: number;
  flags: number;
  children: Box[];
}

/** A treemap: the areas are the figures. Names that have all of their parent's bytes share its rectangle. */
export function tree(graph: Graph, width: number, height: number, view: number): Made {
  const focus = graph.focus(graph.query.focus);
  const scale = focus.value > 0 ? (width * height) / focus.value : 0;
  const root = box(graph, focus, scale, 0, LARGE * focus.value);
  const laid = treemap<Box>()
    .size([width, height])
    .tile(treemapSquarify.ratio(1.3))
    .round(true)
    .paddingInner(1)
    .paddingOuter((node) => (node.depth ? 2 : 0))
    .paddingTop((node) => (node.depth && node.children ? TITLE : 0))(valued(hierarchy(root)));
  const rectangles: Rectangle[] = [];
  const numbers = new Map<HierarchyRectangularNode<Box>, number>();
  laid.eachBefore((at) => {
    const [w, h] = [at.x1 - at.x0, at.y1 - at.y0];
    const parent = at.parent ? (numbers.get(at.parent) ?? -2) : -1;
    if (at.depth && (w < 1 || h < 1 || parent === -2)) return;
    const { nodes, value, flags } = at.data;
    const node = nodes.at(-1) ?? null;
    numbers.set(at, rectangles.length);
    const inner = at.children ? FLAG.inner : 0;
    rectangles.push({
      node, parent, depth: at.depth, x: at.x0, y: at.y0, width: w, height: h, value, flags: flags | inner,
    });
  });
  return made("treemap", graph, focus, rectangles, view, false);
}

/** The sums are known already, and the parts of a sampled trace may differ from them by their rounding. */
function valued(root: ReturnType<typeof hierarchy<Box>>): typeof root {
  const values = root as typeof root & { value: number };
  values.each((at) => ((at as typeof values).value = at.data.value));
  return values;
}

function box(graph: Graph, first: Node, scale: number, depth: number, large: number): Box {
  const nodes = [first];
  let children = graph.children(first);
  // Deep inside, what has nearly all shares the rectangle, too: each level takes room for a title. What is beside it is summed up.
  const isDeep = depth >= TREEMAP_LEVELS;
  const least = (isDeep ? 0.9 : 0.995) * first.value;
  const isWhole = (child: Node) => child.value >= least;
  while (children.length && children.some(isWhole) && nodes.length < MAX_LEVELS) {
    const only = children.find(isWhole)!;
    nodes.push(only);
    children = graph.children(only);
  }
  const found: Box = { nodes, value: first.value, flags: 0, children: [] };
  if (first.value * scale < 600 || (isDeep && (first.value < large || depth >= DEEPEST))) return found;
  const last = nodes.at(-1)!;
  let [inside, shown] = [0, 0];
  for (const child of children) {
    inside += child.value;
    if (child.value * scale < 12) continue;
    shown += child.value;
    found.children.push(box(graph, child, scale, depth + 1, large));
  }
  if (!found.children.length) return found;
  // What the name has itself; and what is too small, in it or beside it.
  const own = last.value - inside;
  const rest = first.value - shown - own;
  if (own * scale > 4) found.children.push({ nodes: [last], value: own, flags: FLAG.own, children: [] });
  if (rest * scale > 4) found.children.push({ nodes: [], value: rest, flags: FLAG.rest, children: [] });
  return found;
}

/** From the root to a node. */
function lineage(node: Node): Node[] {
  const path: Node[] = [];
  for (let at: Node | null = node; at; at = at.parent) path.push(at);
  return path.reverse();
}

function made(kind: Layout["kind"], graph: Graph, focus: Node, all: Rectangle[], view: number, isCut: boolean): Made {
  const matches = graph.matches();
  const { texts } = graph.model.labels;
  const library = graph.forest.library;
  const labels = new Map<number, string>();
  const isLibrary = ({ items, cursors }: Node) => Boolean(library?.[(cursors ?? items)[0]]);
  for (const rectangle of all) {
    const { node } = rectangle;
    if (!node) continue;
    labels.set(node.label, texts[node.label]);
    if (matches?.[node.label]) rectangle.flags |= FLAG.match;
    if (library && isLibrary(node)) rectangle.flags |= FLAG.library;
  }
  const crumbs = lineage(focus).map(({ label, value }) => ({ label, text: texts[label], value }));
  const layout: Layout = {
    view,
    kind,
    x: Float32Array.from(all, ({ x }) => x),
    y: Float32Array.from(all, ({ y }) => y),
    width: Float32Array.from(all, ({ width }) => width),
    height: Float32Array.from(all, ({ height }) => height),
    label: Int32Array.from(all, ({ node }) => (node ? node.label : -1)),
    depth: Int16Array.from(all, ({ depth }) => depth),
    parent: Int32Array.from(all, ({ parent }) => parent),
    value: Float64Array.from(all, ({ value }) => value),
    flags: Uint8Array.from(all, ({ flags }) => flags),
    levels: all.reduce((most, { depth }) => Math.max(most, depth + 1), 0),
    labels,
    total: graph.total,
    focusValue: focus.value,
    crumbs,
    matched: matches ? graph.matched(matches) : 0,
    isCut,
  };
  return { layout, nodes: all.map(({ node }) => node), graph };
}
