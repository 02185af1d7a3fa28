// Small helpers of all our pages. The files of a page are put one after the other into one module
// (the Hub lets a plugin add no static files), so they share this scope and import nothing.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** A DOM element; `attributes` may hold `class`, `onclick` and the like. Strings become text, never HTML. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const icon = (name, more = "") => el("i", { class: `fa fa-${name} ${more}`.trim(), "aria-hidden": "true" });

const GIB = 2 ** 30;

/** 2.500 as "2.5": at most `digits` decimals, rounded down, no trailing zeros. */
function plain(value, digits = 2) {
  const scale = 10 ** digits;
  return String(Math.floor(value * scale + 1e-9) / scale);
}

/** How an amount of each slot reads; `raw` is thousandths or bytes. */
const AMOUNT = {
  cpu: (raw) => `${plain(raw / 1000, 3)} ${raw === 1000 ? "core" : "cores"}`,
  mem: (raw) => (raw >= GIB ? `${plain(raw / GIB)} GB` : `${Math.floor(raw / 2 ** 20)} MB`),
  shm: (raw) => AMOUNT.mem(raw),
  fgpu: (raw) => `${plain(raw / 1000, 3)} FGPU`,
  gpu: (raw) => `${raw / 1000} whole GPU${raw === 1000 ? "" : "s"}`,
  mig: (raw) => `${raw / 1000} MIG device${raw === 1000 ? "" : "s"}`,
};

/** A time of day as the reader writes it; `epoch` in seconds. */
const clock = (epoch, seconds = false) =>
  new Date(epoch * 1000).toLocaleTimeString([], {
    hour: "2-digit", minute: "2-digit", hour12: false, ...(seconds ? { second: "2-digit" } : {}),
  });
