// Moments in the reader's own zone and words; the server writes them in UTC.

const TICK = 1000; // ms
const DAY = 86400;
// A browser's clock may be off by anything: how long ago something was, or is to be, goes by the server's.
const { now: told } = document.getElementById("bk-page").dataset;
const [navigation] = performance.getEntriesByType("navigation");
const ahead = told ? Date.parse(told) - (Date.now() - performance.now() + (navigation?.responseStart ?? 0)) : 0; // ms
const exact = new Intl.DateTimeFormat([], { dateStyle: "full", timeStyle: "long" });

/** The server's time, in milliseconds. */
export const now = () => Date.now() + ahead;

/** A length of time in words: "12 s", "2 min", "1 h 05 min", "3 days 4 h". */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60), hours = Math.floor(whole / 3600);
  if (!hours) return `${minutes} min`;
  if (hours < 48) return minutes % 60 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days${hours % 24 ? ` ${hours % 24} h` : ""}`;
}

/** A moment as the reader writes it: the time alone today, with its day otherwise. */
export function when(date, more = {}) {
  const today = new Date().toDateString() === date.toDateString();
  const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...more };
  if (today) return date.toLocaleTimeString([], time);
  const year = date.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return date.toLocaleString([], { day: "numeric", month: "short", ...year, ...time });
}

const WORDS = {
  when: (date) => when(date),
  exact: (date) => when(date, { second: "2-digit" }),
  ago: (date, away) => (away >= 0 ? (away > 7 * DAY ? when(date) : `${span(away)} ago`) : `in ${span(-away)}`),
  lasts: (_, away) => span(away),
  left: (_, away) => span(-away),
};

/** Writes the moments below `root`. */
export function tell(root = document) {
  for (const node of root.querySelectorAll("time[data-shows]")) {
    const date = new Date(node.dateTime);
    const text = WORDS[node.dataset.shows](date, (now() - date) / 1000);
    if (node.textContent !== text) node.textContent = text;
    if (!node.title) node.title = exact.format(date);
  }
}

setInterval(() => document.visibilityState === "visible" && tell(), TICK);
