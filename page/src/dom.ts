// Elements. Text is set as text only: there is no way here to set markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: any) => void)>;

/** An element; `on...` attributes are listeners, true ones have no value, false and null ones are left out. */
export function el<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false) as Node[]);
  return element;
}

export function byId<Type extends HTMLElement = HTMLElement>(id: string): Type {
  return document.getElementById(id) as Type;
}

export function fill(element: HTMLElement, ...children: Child[]): void {
  element.replaceChildren(...(children.filter(Boolean) as Node[]));
}

/** A row of buttons one of which is pressed. */
export function choice<Value extends string>(
  label: string,
  values: readonly (readonly [Value, string, string?])[],
  chosen: () => Value,
  choose: (value: Value) => void,
): { element: HTMLElement; update: (isOff?: (value: Value) => string | false) => void } {
  const buttons = values.map(([value, text, title]) =>
    el("button", { type: "button", "data-value": value, title, onclick: () => choose(value) }, text),
  );
  const element = el("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
  const update = (isOff?: (value: Value) => string | false) =>
    buttons.forEach((button, at) => {
      const [value, , title] = values[at];
      const off = isOff?.(value) ?? false;
      button.setAttribute("aria-pressed", String(value === chosen()));
      button.disabled = off !== false;
      button.title = off || title || "";
    });
  update();
  return { element, update };
}

/** A function that runs once per frame at most, after its last call. */
export function perFrame(run: () => void): () => void {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      run();
    });
  };
}

/** A function that runs when it has not been called for some time. */
export function settled(ms: number, run: () => void): () => void {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(run, ms);
  };
}

/** Has a screen reader say it. */
export function announce(text: string): void {
  byId("announcement").textContent = text;
}

const END = 24;

/** A name in one line: its end stays in sight where there is no room for all of it. */
export function inLine(name: string): HTMLElement {
  const at = name.length - END;
  return at > END ? el("bdi", { class: "in-line" }, el("span", {}, name.slice(0, at)), el("span", {}, name.slice(at))) : el("bdi", {}, name);
}
