// The page while a session starts: a story told by the Hub's progress events, with times that run.

const page = $("#backendai-pending");
const { user, server, name, base, progress, xsrf, service } = page.dataset;
const STORY = ["asked", "queued", "placed", "image", "container", "server", "ready"];
const model = new URL(`${base}api/users/${encodeURIComponent(user)}/${server ? `servers/${encodeURIComponent(server)}` : "server"}`, location.href);
const heading = $("h1 .says", page);
const steps = new Map(); // step -> { state, at, until, title, detail, position }

let source = null;
let cancelling = false;
let over = false;
let handedOver = false; // the start let go of the session, which waits and starts by itself
let message = ""; // the last one of a failure, to show when nothing better comes
let position = null;
let before = null;

/** What the tab says, for whoever looks elsewhere meanwhile. */
function tab(state, says) {
  document.title = says;
  $("#bk-tab-icon").href = $("#bk-tab-icon").dataset[state];
}

const item = (step) => $(`[data-step="${step}"]`, page);
const now = () => Date.now() / 1000;

/** A duration in words: "0.4 s", "12 s", "2 min", "1 h 5 min". */
function duration(seconds) {
  if (seconds < 10) return `${plain(Math.max(0, seconds), 1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const minutes = Math.floor((seconds % 3600) / 60);
  return `${Math.floor(seconds / 3600)} h${minutes ? ` ${minutes} min` : ""}`;
}

/** A call of the Hub's API about this very server. */
function call(method) {
  return fetch(model, { method, headers: { "X-XSRFToken": xsrf, Accept: "application/json" }, credentials: "same-origin", cache: "no-store" });
}

function listen() {
  source?.close();
  source = new EventSource(progress);
  source.onopen = () => { // the Hub tells the whole story again to whoever comes back
    steps.clear();
    $(".bk-log", page).replaceChildren();
  };
  source.onmessage = ({ data }) => tell(JSON.parse(data));
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) ended(); };
}

function tell(event) {
  if (over) return;
  if (typeof event.progress === "number") progressTo(event.progress);
  if (event.failed) message = event.html_message ? textOf(event.html_message) : event.message;
  else if (event.backendai) advance(event.backendai);
  log(event);
  if (event.ready || event.failed) ended();
  render();
}

/** What an HTML message says, without its HTML. */
const textOf = (html) => new DOMParser().parseFromString(html, "text/html").body.textContent;

function advance({ step, state, since, at, title: says, detail, position: place, handed_over, session }) {
  if (!STORY.includes(step)) return;
  if (session && service) leadTo(session, STORY.indexOf(step) > STORY.indexOf("queued"));
  const known = steps.get(step);
  handedOver = handed_over ?? false;
  steps.set(step, { state, at: since ?? known?.at ?? at ?? now(), until: state === "done" ? at ?? now() : null, title: says, detail, position: place });
  for (const earlier of STORY.slice(0, STORY.indexOf(step))) {
    const entry = steps.get(earlier);
    if (entry && entry.state !== "done") Object.assign(entry, { state: "done", until: at ?? now() });
  }
  const queued = steps.get("queued");
  const next = queued?.state === "now" ? queued.position ?? null : null;
  if (next !== position) [before, position] = [position, next];
}

/** The way to the session's pages at the sessions service, and to its form with what was asked. */
function leadTo({ id, whole }, placed) {
  const about = $("#bk-about", page), address = `${service}sessions/${id}`;
  for (const link of $$("a", about)) link.href = address + (link.dataset.page ?? "");
  if (placed) $("[data-page='/log']", about).hidden = false;
  about.hidden = false;
  if (whole) $("#bk-again", page).href = `${service}launch?like=${id}`;
}

function progressTo(percent) {
  $("[role=progressbar]", page).setAttribute("aria-valuenow", String(percent));
  $(".bk-bar-track > i", page).style.width = `${percent}%`;
}

function log(event) {
  const says = event.message ?? (event.html_message ? textOf(event.html_message) : "");
  if (says) $(".bk-log", page).append(el("div", {}, `${clock(event.backendai?.at ?? now(), true)} ${says}`));
}

// What is on the page

function render() {
  let last = null;
  STORY.forEach((step, index) => {
    const entry = steps.get(step), row = item(step);
    row.hidden = step === "image" && !entry;
    const passed = !entry && STORY.slice(index + 1).some((later) => steps.has(later));
    const state = entry?.state === "done" || passed ? "done" : over ? (entry ? "bad" : "todo") : entry?.state ?? "todo";
    row.className = state;
    row.toggleAttribute("aria-current", state === "now");
    if (state === "now") row.setAttribute("aria-current", "step");
    const glyph = { done: "check", bad: "exclamation", now: step === "queued" ? "hourglass-half" : "spinner" }[state];
    $(".bk-dot", row).replaceChildren(glyph ? icon(glyph, glyph === "spinner" ? "fa-spin" : "") : step === "ready" ? icon("flag-checkered") : String(number(step, index)));
    if (entry?.title) $(".title", row).textContent = entry.title;
    if (entry?.detail) $(".sub", row).textContent = entry.detail;
    else if (passed && step === "queued") $(".sub", row).textContent = "There was room at once.";
    if (entry?.state === "now") last = entry;
  });
  if (!over) {
    heading.textContent = position ? "is in line" : "is starting";
    tab(steps.get("queued")?.state === "now" ? "waiting" : "starting", position ? `(#${position}) ${name}` : `Starting: ${name}`);
    const spoken = last ? [last.title, last.detail].filter(Boolean).join(". ") : "";
    if ($("#bk-spoken").textContent !== spoken) $("#bk-spoken").textContent = spoken;
  }
  $("#bk-place", page).hidden = !position;
  $("#bk-waited .label", page).textContent = position ? "Waiting for" : "On the way for";
  $("#bk-place .bk-big", page).textContent = position ? `#${position}` : "";
  $("#bk-place .was", page).textContent = position && before && before !== position ? `was #${before}` : "";
  tick();
}

/** The image step is not always there, so the numbers close up. */
const number = (step, index) => index + 1 - (index > STORY.indexOf("image") && item("image").hidden ? 1 : 0);

/** The times that run. */
function tick() {
  const first = steps.get("asked")?.at ?? [...steps.values()][0]?.at;
  if (first && !over) {
    $("#bk-waited .bk-big", page).textContent = duration(now() - first);
    $("#bk-waited .since", page).textContent = `since ${clock(first)}`;
  }
  for (const [step, entry] of steps) {
    const spent = (entry.until ?? now()) - entry.at;
    $(".when", item(step)).textContent = entry.state === "done"
      ? (spent >= 0.05 ? duration(spent) : clock(entry.at, true))
      : over ? "" : `${duration(spent)} so far`;
  }
}

// The end

/**
 * The stream says it is over. After a cancel it says "ready" too, so ask the Hub what is. For about a
 * second that is no better: the Hub calls a server ready whose start it has just cancelled. So unless
 * the story itself came to its end, ask once more when that second has passed.
 */
async function ended(again = false) {
  source.close();
  if (cancelling || over) return;
  let found;
  try {
    const reply = await call("GET");
    found = reply.ok ? await reply.json() : reply.status === 404 ? {} : null;
  } catch {
    found = null;
  }
  if (cancelling || over) return;
  if (found?.ready && (again || steps.has("ready"))) ready();
  else if (found?.ready) setTimeout(() => ended(true), 1500);
  else if (found === null || found.pending === "spawn") setTimeout(listen, 2000); // the Hub restarts, or is not there yet
  else if (found.pending) setTimeout(ended, 1000);
  else if (handedOver) window.location.reload(); // the Hub's answer tells the place in line, and follows it
  else finish(message ? "did not start" : "was cancelled", message);
}

function ready() {
  over = true;
  heading.textContent = "is ready";
  tab("ready", `Ready: ${name}`);
  if (document.hidden && window.Notification?.permission === "granted") new Notification(`${name} is ready`);
  window.location.reload(); // the Hub answers with the way to the server
}

/** Nothing more will happen: say why, keep the story, and offer the way back. */
function finish(says, why = "") {
  over = true;
  source?.close();
  page.classList.add("failed");
  heading.textContent = says;
  tab("failed", `${name} ${says}`);
  $("#bk-cancel", page).hidden = $("#bk-waiting", page).hidden = true;
  $("#bk-tell", page).hidden = $("#bk-leave", page).hidden = true;
  const box = $("#bk-over", page);
  box.hidden = false;
  box.classList.add(why ? "alert-danger" : "alert-secondary");
  $(".bk-said", box).textContent = why ? why.replace(/^Spawn failed: /, "") : "You cancelled it. Nothing of it is running, and the form has what you asked for.";
  $("#bk-spoken").textContent = "";
  render();
  box.focus();
}

async function cancel() {
  const button = $("#bk-cancel", page);
  cancelling = true;
  button.disabled = true;
  button.textContent = "Cancelling";
  $("#bk-trouble", page).hidden = true;
  try {
    const reply = await call("DELETE");
    if (!reply.ok && reply.status !== 404) throw new Error((await reply.json().catch(() => ({}))).message ?? `The Hub answered ${reply.status}.`);
    finish("was cancelled");
  } catch (error) {
    cancelling = false;
    button.disabled = false;
    button.textContent = "Cancel session";
    $("#bk-trouble", page).hidden = false;
    $("#bk-trouble", page).textContent = `It could not be cancelled: ${error.message} Try again.`;
    if (source.readyState === EventSource.CLOSED) ended();
  }
}

function offerToTell() {
  const button = $("#bk-tell", page);
  if (!window.Notification || !window.isSecureContext || Notification.permission === "denied") return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const allowed = (await Notification.requestPermission()) === "granted";
    button.disabled = true;
    $("span", button).textContent = allowed ? "You will be told" : "Your browser does not allow it";
  });
}

$("#bk-cancel", page).hidden = false;
$("#bk-cancel", page).addEventListener("click", cancel);
offerToTell();
setInterval(tick, 1000);
render();
listen();
window._jupyterhub_page_loaded = true;
