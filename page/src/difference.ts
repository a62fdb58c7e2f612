// The graph of what has changed: an icicle whose widths are by how much figures differ, up and down together, and whose
// colours say whether a part has grown or shrunk on the whole.

import { el } from "./dom";
import { figure, visible } from "./text";

export interface Change {
  /** From the outermost inwards. */
  path: string[];
  /** Its own, without what is inside. */
  old: number;
  new: number;
}

interface Part {
  name: string;
  /** With all inside it. */
  old: number;
  new: number;
  differs: number;
  inside: Map<string, Part>;
}

/** What is narrower is left out: a share of the whole width. */
const NARROWEST = 0.002;
const MOST_LEVELS = 24;
/** In pixels. */
const LEVEL = 20;

const part = (name: string): Part => ({ name, old: 0, new: 0, differs: 0, inside: new Map() });

function treeOf(changes: Change[]): Part {
  const root = part("all");
  for (const change of changes) {
    const differs = Math.abs(change.new - change.old);
    let at = root;
    for (const name of [null, ...change.path]) {
      if (name !== null) {
        let next = at.inside.get(name);
        if (!next) at.inside.set(name, (next = part(name)));
        at = next;
      }
      at.old += change.old;
      at.new += change.new;
      at.differs += differs;
    }
  }
  return root;
}

/** The graph, or null if nothing has changed. `pick` is called with the name of the part that was clicked. */
export function differenceGraph(changes: Change[], column: string, pick: (name: string) => void): HTMLElement | null {
  const root = treeOf(changes);
  if (!root.differs) return null;
  const graph = el("div", { class: "difference", role: "group", "aria-label": "Graph of what has changed" });
  let deepest = 0;
  const draw = (of: Part, left: number, level: number) => {
    const width = of.differs / root.differs;
    if (width < NARROWEST || level >= MOST_LEVELS) return;
    deepest = Math.max(deepest, level);
    const net = of.new - of.old;
    const share = Math.min(Math.abs(net) / of.differs, 1);
    const change = net === 0 ? "as much as before" : `${net > 0 ? "+" : "−"}${figure(column, Math.abs(net))}`;
    const says = `${visible(of.name)}: ${change}, ${figure(column, of.old)} → ${figure(column, of.new)}`;
    const button = el(
      "button",
      {
        type: "button",
        class: net > 0 ? "grew" : net < 0 ? "shrank" : "even",
        title: says,
        "aria-label": says,
        // Paler where parts inside have grown and others shrunk.
        style: `left:${(100 * left).toFixed(3)}%;width:${(100 * width).toFixed(3)}%;top:${level * LEVEL}px;--share:${Math.round(25 + 60 * share)}%`,
        onclick: () => pick(of === root ? "" : of.name),
      },
      el("bdi", {}, `${visible(of.name)} `),
      el("span", {}, change),
    );
    graph.append(button);
    const inside = [...of.inside.values()].sort((a, b) => b.differs - a.differs || (a.name < b.name ? -1 : 1));
    for (const next of inside) {
      draw(next, left, level + 1);
      left += next.differs / root.differs;
    }
  };
  draw(root, 0, 0);
  graph.style.height = `${(deepest + 1) * LEVEL}px`;
  return graph;
}
