// What a session used, drawn over time. The numbers are the server's; the table above says in words what they come to.
// Only who looks at a session loads this, and uPlot with it.
import { Refused, call } from "./api.js";
import { now, when } from "./times.js";

const LOOK = 15000; // ms between two looks at a session that runs
const HEIGHT = 140; // pixels
// Seconds. The finest steps are kept for an hour: a little less of it has nothing else in it.
const RANGES = [["Last hour", 3500], ["Last day", 86400], ["All", Infinity]];
const STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power); // between numbers beside bytes
const CHARTS = [
  { title: "Of what was granted", of: "percent", words: (value) => `${Math.round(value)}%`, most: 100,
    lines: { cpu: "CPU", mem: "Memory", gpu: "GPU time", gpu_mem: "GPU memory" } },
  { title: "Network", of: "mean", words: rate, incrs: STEPS, lines: { net_in: "Received", net_out: "Sent" } },
  { title: "Disk", of: "mean", words: rate, incrs: STEPS, lines: { disk_read: "Read", disk_write: "Written" } },
];
const COLOURS = { cpu: "--bk-cpu", mem: "--bk-mem", gpu: "--bk-gpu", gpu_mem: "--bk-gpu" }; // as of the bars above
const OTHERS = ["--bs-blue", "--bs-orange"];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]]; // who sees no colours tells lines by these
const UNITS = ["B", "KB", "MB", "GB", "TB"];

function rate(value) {
  const power = value < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(value) / 10));
  const number = value / 2 ** (10 * power);
  return `${number < 10 && power ? Math.round(number * 10) / 10 : Math.round(number)} ${UNITS[power]}/s`;
}

let loading = null;

/** uPlot and its sheet, loaded once. */
function library() {
  loading ??= new Promise((done, failed) => {
    const at = (name) => new URL(`../vendor/${name}`, import.meta.url).href;
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: at("uplot.min.css") });
    const script = Object.assign(document.createElement("script"), { src: at("uplot.min.js") });
    script.addEventListener("load", () => done(window.uPlot));
    script.addEventListener("error", () => {
      loading = null;
      failed(new Refused(0, [{ message: "The charts cannot be loaded." }]));
    });
    document.head.append(sheet, script);
  });
  return loading;
}

/** Times and lines as uPlot has them; where nothing was measured for a while, lines break off. */
function columns(series, chart, names) {
  const times = [], values = names.map(() => []);
  let last = Infinity;
  series.times.forEach((text, place) => {
    const at = Date.parse(text) / 1000;
    if (at - last > 2.5 * series.resolution) {
      times.push(last + series.resolution);
      for (const line of values) line.push(null);
    }
    times.push(at);
    names.forEach((name, index) => values[index].push(series[chart.of][name][place]));
    last = at;
  });
  return [times, ...values];
}

/** The charts of one session. */
class Charts {
  constructor(node) {
    const { charts, began } = node.dataset;
    Object.assign(this, { node, id: charts, began: Date.parse(began), shown: [], seconds: Infinity, found: null });
    const age = (now() - this.began) / 1000;
    this.ranges = "over" in node.dataset ? [] : RANGES.filter(([, seconds]) => seconds < age || seconds === Infinity);
    if (this.ranges.length > 1) this.seconds = this.ranges[0][1];
    this.area = document.createElement("div");
    node.replaceChildren(...this.chooser(), this.area);
    this.size = new ResizeObserver(() => this.fit());
    this.size.observe(node);
    this.theme = new MutationObserver(() => this.draw());
    this.theme.observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
    this.look();
    this.timer = setInterval(() => this.again(), LOOK);
  }

  chooser() {
    if (this.ranges.length < 2) return [];
    const group = document.createElement("div");
    group.className = "btn-group btn-group-sm mb-2";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Time that is shown");
    for (const [name, seconds] of this.ranges) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "btn btn-quiet", textContent: name });
      button.addEventListener("click", () => this.choose(seconds));
      button.dataset.seconds = seconds;
      group.append(button);
    }
    this.group = group;
    return [group];
  }

  choose(seconds) {
    this.seconds = seconds;
    this.look();
  }

  again() {
    if (!this.node.isConnected) this.end();
    else if (!document.hidden && !("over" in this.node.dataset)) this.look();
  }

  /** The panel shows something else by now: nothing of this one is kept. */
  end() {
    clearInterval(this.timer);
    this.size.disconnect();
    this.theme.disconnect();
    for (const chart of this.shown.splice(0)) chart.destroy();
  }

  async look() {
    const asked = this.seconds;
    for (const button of this.group?.children ?? []) {
      const pressed = Number(button.dataset.seconds) === asked;
      button.setAttribute("aria-pressed", pressed);
      button.classList.toggle("active", pressed);
    }
    const since = Number.isFinite(asked) ? `?since=${encodeURIComponent(new Date(now() - 1000 * asked).toISOString())}` : "";
    let found;
    try {
      [found, this.uPlot] = await Promise.all([call("GET", `api/sessions/${this.id}/usage${since}`), library()]);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (!this.found) this.say(error.message); // else what there was stays, and the page says what is wrong
      return;
    }
    if (asked !== this.seconds) return; // another time was chosen meanwhile
    this.found = found;
    this.draw();
  }

  draw() {
    if (!this.found || !this.node.isConnected) return;
    const { series } = this.found, several = series.times.length > 1;
    this.node.hidden = !several && this.ranges.length < 2;
    const wanted = several ? CHARTS.filter((chart) => this.names(chart).length) : [];
    for (const chart of this.shown.splice(0)) chart.destroy();
    this.area.replaceChildren(...wanted.map((chart) => this.figure(chart)));
    this.area.className = "";
    if (!several) this.say("Nothing was measured in this time.");
  }

  say(text) {
    this.area.className = "bk-14 bk-quiet";
    this.area.textContent = text;
  }

  /** The lines of a chart of which anything is known. */
  names(chart) {
    return Object.keys(chart.lines).filter((name) => this.found.series[chart.of][name].some((value) => value !== null));
  }

  figure(chart) {
    const { series } = this.found, names = this.names(chart), data = columns(series, chart, names);
    const figure = document.createElement("figure"), caption = document.createElement("figcaption"), box = document.createElement("div");
    figure.className = "mb-3";
    caption.className = "bk-13 bk-quiet";
    caption.textContent = chart.title;
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", this.told(chart, names, data));
    figure.append(caption, box);
    requestAnimationFrame(() => {
      if (box.isConnected) this.shown.push(new this.uPlot(this.options(chart, names), data, box));
    });
    return figure;
  }

  told(chart, names, [times, ...values]) {
    const lines = names.map((name, index) => {
      const known = values[index].filter((value) => value !== null);
      return `${chart.lines[name]} ${chart.words(known.at(-1))} at last, ${chart.words(Math.max(...known))} at most`;
    });
    const [first, last] = [times[0], times.at(-1)].map((at) => when(new Date(1000 * at)));
    return `${chart.title} from ${first} to ${last}: ${lines.join("; ")}.`;
  }

  options(chart, names) {
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--bs-secondary-color"), grid: { stroke: colour("--bs-border-color"), width: 1 }, ticks: { stroke: colour("--bs-border-color"), width: 1 } };
    const lines = names.map((name) => {
      const place = Object.keys(chart.lines).indexOf(name);
      return {
        label: chart.lines[name], stroke: colour(COLOURS[name] ?? OTHERS[place]), dash: DASHES[place], width: 2, points: { show: false },
        value: (_, value) => (value === null || value === undefined ? "–" : chart.words(value)),
      };
    });
    return {
      width: this.width, height: HEIGHT, cursor: { y: false, drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(chart.most ?? 1024, high * 1.05 || 0)] } },
      axes: [
        { ...axis, size: 30, space: 110, values: (_, ticks) => ticks.map((at) => when(new Date(1000 * at))) },
        { ...axis, size: 76, incrs: chart.incrs, values: (_, ticks) => ticks.map(chart.words) },
      ],
      series: [{ value: (_, at) => (at ? when(new Date(1000 * at)) : "–") }, ...lines],
    };
  }

  get width() {
    return Math.max(200, this.node.clientWidth);
  }

  fit() {
    for (const chart of this.shown) if (chart.width !== this.width) chart.setSize({ width: this.width, height: HEIGHT });
  }
}

const drawn = new WeakSet();

/** Draws the charts below `root` that are not drawn yet. */
export function draw(root) {
  for (const node of root.querySelectorAll("[data-charts]")) {
    if (drawn.has(node)) continue;
    drawn.add(node);
    node.hidden = false;
    new Charts(node);
  }
}
