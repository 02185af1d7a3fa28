// A session's log: its end at first, then what comes. Only so many lines are kept on the page.
import { Refused, at, refusal, xsrf } from "./api.js";

const KEPT = 1_000_000; // characters on the page
const AGAIN = 3000; // ms until a log that broke off is followed again
const TYPING = 300; // ms after a key until a search begins

const $ = (name) => document.getElementById(`bk-${name}`);
let reading = new AbortController(), typed = 0, kept = 0;

const bottom = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 24;

function say(text) {
  $("log-said").textContent = text;
}

/** Adds nodes to the page, and takes the oldest away where there is too much. */
function add(box, ...nodes) {
  const down = bottom(box);
  for (const node of nodes) kept += node.textContent.length;
  box.append(...nodes);
  while (box.childNodes.length > 1 && kept > KEPT) {
    kept -= box.firstChild.textContent.length;
    box.firstChild.remove();
  }
  if (down) box.scrollTop = box.scrollHeight;
}

function empty(box) {
  kept = 0;
  box.textContent = "";
}

function address(more = {}) {
  const url = at(`api/sessions/${$("log").dataset.session}/logs`);
  const wanted = { kernel: $("kernel").value, kind: $("kind")?.value, ...more };
  for (const [name, value] of Object.entries(wanted)) if (value) url.searchParams.set(name, value);
  return url;
}

async function* pieces(url, signal) {
  const reply = await fetch(url, { headers: { "X-XSRFToken": xsrf }, signal });
  if (!reply.ok) throw await refusal(reply);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let piece; !(piece = await reader.read()).done; ) yield piece.value;
}

/** All of the log; `again` after it broke off: then what is shown stays until there is something to show. */
async function whole(box, signal, again) {
  const follow = $("follow").checked && "live" in $("log").dataset;
  let stale = again;
  if (!stale) empty(box);
  if (!stale) say(follow ? "Waiting for the log." : "");
  for await (const text of pieces(address({ tail: $("log").dataset.tail, follow: follow ? "1" : "" }), signal)) {
    const up = stale && !bottom(box) ? box.scrollHeight - box.scrollTop : 0; // where somebody reads
    if (stale) empty(box);
    stale = false;
    say(follow ? "Live" : "");
    add(box, document.createTextNode(text));
    if (up) box.scrollTop = box.scrollHeight - up;
  }
  if (!box.textContent) say("Nothing was written.");
  else say(follow ? "The log has come to its end." : "");
}

async function found(box, words, signal) {
  empty(box);
  let rest = "", count = 0;
  for await (const text of pieces(address({ search: words }), signal)) {
    const hits = (rest + text).split("\n");
    rest = hits.pop();
    const marks = hits.map((hit) => {
      const { line, text: words } = JSON.parse(hit);
      const mark = document.createElement("span");
      mark.className = "hit";
      mark.dataset.number = line;
      mark.textContent = `${words}\n`;
      return mark;
    });
    add(box, ...marks);
    count += marks.length;
    say(`${count} lines found so far`);
  }
  say(count ? `${count} ${count === 1 ? "line" : "lines"} found` : "No line has it.");
}

async function show({ again = false } = {}) {
  reading.abort();
  const began = Date.now(), mine = (reading = new AbortController());
  const box = $("lines"), words = $("search").value.trim();
  $("download").href = address({ download: "1" });
  box.hidden = false;
  $("follow").disabled = Boolean(words) || !("live" in $("log").dataset);
  try {
    await (words ? found(box, words, mine.signal) : whole(box, mine.signal, again));
  } catch (error) {
    if (mine.signal.aborted) return;
    if (error instanceof Refused && error.status && error.status < 500) {
      say(error.message);
      box.hidden = true; // an empty box would say that nothing was written
    } else {
      // The server breaks one off that was quiet for long, to see whether somebody is there.
      const lasted = Date.now() - began > AGAIN;
      if (!lasted) say("The log broke off. Trying again.");
      setTimeout(() => mine === reading && show({ again: true }), lasted ? 0 : AGAIN);
    }
  }
}

/** Begins, on the page of a log. */
export function log() {
  if (!$("log")) return;
  const wanted = new URLSearchParams(location.search).get("kernel");
  if (wanted && [...$("kernel").options].some((option) => option.value === wanted)) $("kernel").value = wanted;
  for (const name of ["kernel", "kind", "follow"]) $(name)?.addEventListener("change", show);
  $("search").addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(show, TYPING);
  });
  $("search").form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  // A tab that nobody sees leaves its connection to the others; see live.js.
  document.addEventListener("visibilitychange", () => {
    if (!("live" in $("log").dataset) || !$("follow").checked || $("search").value) return;
    if (document.visibilityState === "visible") show({ again: true });
    else reading.abort();
  });
  show();
}
