// The launcher: five steps, one at a time, and what keeps them, the address and the verdict together.

const LAST = 5;
let current = 1;
let furthest = 1;
let undo = null;
let initial = []; // the form as the server sent it
let outlook = null; // what the server says would happen to the form as it stands; null where it was not asked
const watchers = []; // called after each change

function show(step, { push = true, focus = false } = {}) {
  if (step !== current) leave();
  const moved = step !== current;
  current = step;
  furthest = Math.max(furthest, step);
  for (const section of $$(".bk-step")) section.classList.toggle("now", Number(section.dataset.step) === step);
  if ($("#bk-quick")) $("#bk-quick").hidden = step !== 1 || fromServer.length > 0;
  if (moved && push) {
    remember.now();
    history.pushState(entryOf(step), "", addressOf(step));
  }
  render();
  if (moved) watchers.forEach((work) => work());
  if (focus) {
    $(`#step-${step}`).focus({ preventScroll: true });
    window.scrollTo({ top: 0 });
  }
}

/** Leaving a step judges what is in it, and takes a folder name that was typed but not added. */
function leave() {
  for (const control of $$("[data-field]", $(`#step-${current}`))) control.dataset.left = "1";
  if (current === 3 && $("#bk-new")) takeNewFolder();
}

function render() {
  if (view.service) renderOrder();
  renderResources();
  renderFolders();
  renderPorts(changed);
  const list = problems();
  renderProblems(list);
  renderRail(list);
  renderBar(list);
  if (current === LAST) renderReview(list);
}

function renderRail(list) {
  const says = summaries();
  for (const item of $$(".bk-rail li")) {
    const step = Number(item.dataset.step);
    const wrong = list.find((p) => stepOfField(p.field) === step);
    const state = wrong ? "bad" : step === current ? "now" : step < furthest ? "done" : "todo";
    item.className = step === current && wrong ? "bad now" : state;
    if (step === current) $("a", item).setAttribute("aria-current", "step");
    else $("a", item).removeAttribute("aria-current");
    $(".bk-dot", item).replaceChildren(wrong ? icon("exclamation") : state === "done" ? icon("check") : String(step));
    $("small", item).textContent = wrong ? wrong.message : step === current ? "You are here" : says[step - 1];
  }
  $("#bk-where span span").textContent = current;
  $("#bk-where strong").textContent = $(`.bk-rail li[data-step="${current}"] a`).textContent;
}

function renderBar(list) {
  const box = $("#bk-verdict"), held = blocking(list), v = outlook ?? verdict();
  const [glyph, look] = held.length ? ["circle-exclamation", "bk-bad"] : LOOK[v.code] ?? LOOK.waits;
  const title = held.length ? `Put ${held.length === 1 ? "one thing" : `${held.length} things`} right to launch` : v.text.replace(/\.$/, "");
  const then = v.code === "never" ? "" : `Then: ${v.text.charAt(0).toLowerCase()}${v.text.slice(1)}`;
  const more = held.length ? then : [v.why, outlook ? "" : `As of ${clock(madeAt)}.`].filter(Boolean).join(" ");
  const key = [glyph, title, more].join("|");
  if (box.dataset.key !== key) {
    box.dataset.key = key; // what did not change is not read aloud again
    $(".fa", box).className = `fa fa-${glyph} ${look}`;
    $("strong", box).textContent = title;
    $("span span", box).textContent = more;
  }
  $("#bk-previous").disabled = current === 1;
  $("#bk-next").hidden = $("#bk-skip").hidden = current === LAST;
  $("#bk-launch").hidden = current !== LAST;
  $("#bk-launch").disabled = held.length > 0;
  $("#bk-reset").textContent = undo ? "Undo reset" : "Reset";
}

/** Something in the form changed: everything that shows it follows. */
function changed() {
  undo = null;
  follow();
}

function follow() {
  outlook = null;
  render();
  remember();
  keepDraft(current);
  watchers.forEach((work) => work());
}

// Browsers refuse a page that rewrites its address at every key.
const REMEMBER = 500; // ms
let remembering = 0;

/** Has the address follow the form, soon. */
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(remember.now, REMEMBER);
  if (!view.service) remember.now();
}

/** What is to be in the address is there now. */
remember.now = () => {
  if (!remembering) return;
  clearTimeout(remembering);
  remembering = 0;
  history.replaceState(entryOf(current), "", addressOf(current));
};

let pressing = false;

/** Runs `action` when no press of the pointer is under way: what is about to be clicked must not move or go. */
function whenReleased(action) {
  if (pressing) window.addEventListener("pointerup", () => setTimeout(action), { once: true });
  else action();
}

function onEdit(event) {
  const { target } = event;
  if (!target.name && !target.dataset.slider) return;
  if (event.type === "change" && target.matches("input:not([type=radio], [type=checkbox])")) whenReleased(() => edit(event));
  else edit(event);
}

function edit(event) {
  const { target } = event;
  edited(target.dataset.slider ? amountInput(target.dataset.slider) : target);
  if (event.type === "change") {
    target.dataset.left = "1";
    if (target.name === "environment") environmentChanged();
    if (target.dataset.field === "version") versionChanged();
    if (target.name === "resource_group") groupChanged(chosen("preset") || undefined, isCustom());
    if (target.name === "preset") usePreset();
    if (target.name === "gpu_kind") useKind(target.value);
    const slot = SLOTS.find((s) => amountInput(s) === target);
    if (slot && target.value === "" && presetAmount(slot) !== null && !target.validity.badInput) target.value = shown(slot, presetAmount(slot));
    follow();
    if (target.name === "owner") form.requestSubmit($("#bk-owner-fill"));
  } else changed();
}

/** Back to the form with nothing typed; once more, and what was there is there again. */
function reset() {
  const before = undo ? null : read();
  write(undo ?? blank());
  fromServer = [];
  environmentChanged();
  changed();
  undo = before;
  renderBar(problems());
}

/** The form as the server sent it; when what was typed came back with it, what an empty form means. */
function blank() {
  if (!view.draft) return initial;
  const name = view.environments[0]?.name ?? "";
  const version = view.environments[0]?.versions[0]?.name ?? "";
  return [["environment", name], [`version.${name}`, version], ["resource_group", view.resource_groups[0]?.name ?? ""]];
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no clipboard without https: let the person copy it
    window.prompt("Copy this", text);
    return;
  }
  const label = $("span", button), old = label?.textContent;
  if (label) {
    label.textContent = "Copied";
    button.addEventListener("blur", () => { label.textContent = old; }, { once: true });
  }
}

// Launch

const NEVER_ASK = "backendai-no-folder-is-fine";
let sure = false;
const pressed = new Map(); // buttons disabled by a submit, and what they said

function asksForFolder(quick) {
  const mounts = quick === "last" ? view.last.spec?.mounts ?? [] : quick ? view.default?.mounts ?? [] : mountRows();
  try {
    return view.folders_enabled && !sure && mounts.length === 0 && !localStorage.getItem(NEVER_ASK);
  } catch {
    return false;
  }
}

function onSubmit(event) {
  if (event.submitter?.name === "fill") { // another form, for somebody else
    keepDraft(current, true);
    return;
  }
  const quick = event.submitter?.name === "quick" ? event.submitter.value : "";
  if (!quick && current !== LAST) { // Enter in a field: the next step
    event.preventDefault();
    show(current + 1, { focus: true });
    return;
  }
  leave();
  const held = quick ? [] : blocking(problems());
  if (held.length) {
    event.preventDefault();
    render();
    goToProblem(held[0]);
  } else if (asksForFolder(quick)) {
    event.preventDefault();
    askForFolder(event.submitter, quick);
  } else {
    keepDraft(current, true);
    const button = event.submitter?.matches(".bk-default") ? $("#bk-launch") : event.submitter ?? $("#bk-launch");
    // a disabled button would not be posted, so after the form has been read
    setTimeout(() => {
      for (const b of $$("#bk-launch, #bk-quick button")) {
        pressed.set(b, [...b.childNodes]);
        b.disabled = true;
      }
      button.replaceChildren(icon("spinner", "fa-spin me-2"), "Starting");
    });
  }
}

function askForFolder(submitter, quick) {
  const dialog = $("#bk-nofolder");
  dialog.showModal();
  dialog.onclick = (event) => {
    const answer = event.target.closest("[data-answer]")?.dataset.answer;
    if (!answer) return;
    if (answer === "create" && !createFor(quick)) return;
    dialog.close();
    if (answer === "back") return;
    sure = true;
    if ($("#bk-nofolder-never").checked) {
      try { localStorage.setItem(NEVER_ASK, "1"); } catch { /* storage is off: it asks again */ }
    }
    form.requestSubmit(submitter);
  };
}

/** The dialog's folder goes into the form; for a quick start, which no field is part of, beside it. */
function createFor(quick) {
  const name = folderName($("#bk-nofolder-name"));
  if (!name) {
    $("#bk-nofolder-name").focus();
    return false;
  }
  if (quick) Object.assign($("#bk-quick-folder"), { value: name, disabled: false });
  else addFolder(name);
  return true;
}

// The beginning: a link, a draft of this tab, or what the server sent.

function note(...content) {
  $("#bk-note div").replaceChildren(...content);
  $("#bk-note").hidden = false;
}

function begin() {
  form.noValidate = true;
  groupChanged(chosen("preset") || undefined, true);
  for (const slot of SLOTS) if (amountInput(slot)?.value === "" && presetAmount(slot) !== null) amountInput(slot).value = shown(slot, presetAmount(slot));
  for (const row of $$(".bk-envrow", envRows)) if (!$("input", row).value && !$(".invalid-feedback", row).textContent) row.remove();
  fromServer = placed(view.errors);
  initial = read();
  const { step, own, entries, refused } = fromAddress();
  const kept = draft();
  const arrived = performance.getEntriesByType("navigation")[0]?.type ?? "navigate";
  const proposed = view.service?.proposed; // by a link or an earlier launch: to be looked through
  const returned = view.draft && !proposed; // what was posted, and not launched
  if (view.draft || entries.length || proposed) furthest = LAST;
  const newer = kept && !kept.posted; // than what the server has
  if (returned && !newer) return fromServer.some((p) => stepOfField(p.field)) ? -1 : view.service?.step ?? LAST;
  if (kept && (newer || arrived !== "navigate") && !(entries.length && !step)) {
    fromServer = fromServer.filter((p) => kept.errors?.includes(p.field));
    write(kept.entries);
    environmentChanged();
    fromServer.forEach((p) => { p.control = controlOf(p.field); });
    if (view.service?.acts_for_others && !returned && (field("owner").value || view.viewer) !== view.user.name) {
      form.requestSubmit($("#bk-owner-fill")); // what may be chosen is then the owner's
    }
    $("#bk-note").hidden = true;
    if (arrived === "navigate" && !returned) note("What you had typed here is back. ", el("button", { type: "button", class: "bk-plain", onclick: reset }, "Start over"));
    return fromServer.length ? -1 : step ?? kept.step ?? 1;
  }
  if (entries.length && view.service && !own) furthest = LAST; // the server filled them in, and said so
  else if (entries.length) return takeLink(step, entries, refused);
  environmentChanged();
  if (proposed) return LAST;
  return step ?? 1;
}

function takeLink(step, entries, refused) {
  const missing = write(entries);
  environmentChanged();
  if (view.service) {
    $("#bk-note").hidden = true; // this form wrote that address itself
    return step ?? LAST;
  }
  const here = read().map(String);
  const left = refused.filter((pair) => !here.includes(String(pair))).map(([name, value]) => `${name.split(".")[0].replace("_", " ")} ${value}`);
  note("Filled in from a link. Nothing starts before you press Launch.",
    left.length ? ` A link cannot set variables, new folders and the like, so this is left out: ${left.join(", ")}.` : "",
    missing.length ? ` Not offered to you here, so left as it was: ${missing.join(", ")}.` : "");
  return step ?? LAST;
}

function init() {
  if ($("#bk-actions")) { // the place beside the page's heading
    $("#bk-tools").classList.remove("js-only");
    $("#bk-actions").append($("#bk-tools"));
  }
  initResources(changed);
  initRows(changed);
  const first = begin();
  environmentChanged();
  form.addEventListener("input", onEdit);
  form.addEventListener("change", onEdit);
  form.addEventListener("submit", onSubmit);
  form.addEventListener("focusout", onBlur);
  form.addEventListener("pointerdown", () => { pressing = true; });
  for (const type of ["pointerup", "pointercancel"]) window.addEventListener(type, () => { pressing = false; });
  root.addEventListener("click", (event) => {
    const step = event.target.closest('a[href^="#step-"]')?.getAttribute("href").slice(6);
    if (!step || event.defaultPrevented) return;
    event.preventDefault();
    show(Number(step), { focus: true });
  });
  for (const button of $$("[data-help]")) {
    const text = $(`#${button.dataset.help}`);
    text.hidden = true;
    button.addEventListener("click", () => {
      text.hidden = !text.hidden;
      button.setAttribute("aria-expanded", String(!text.hidden));
    });
  }
  $("#bk-next").addEventListener("click", () => show(current + 1, { focus: true }));
  $("#bk-previous").addEventListener("click", () => show(current - 1, { focus: true }));
  $("#bk-skip").addEventListener("click", () => show(LAST, { focus: true }));
  $("#bk-reset").addEventListener("click", reset);
  $("#bk-copy").addEventListener("click", (event) => copy(linkTo(), event.currentTarget));
  window.addEventListener("popstate", (event) => {
    if (event.state?.step) show(event.state.step, { push: false, focus: true });
    else if (!view.service) {
      const { step, entries, refused } = fromAddress();
      if (entries.length) show(takeLink(step, entries, refused), { push: false });
    }
  });
  window.addEventListener("pagehide", remember.now);
  window.addEventListener("pageshow", (event) => { if (event.persisted) backAgain(); });
  show(first > 0 ? first : current, { push: false });
  history.replaceState(entryOf(current), "", first === 1 && !(view.service ? location.search : location.hash) ? location.href : addressOf(current));
  const wrong = fromServer.find((p) => stepOfField(p.field)) ?? fromServer[0];
  if (wrong && current === LAST && view.service?.proposed) $("#bk-errors").focus();
  else if (wrong) goToProblem(wrong);
  else if (view.service?.step === 1) $("#bk-owner")?.focus(); // it was named there just now
  root.dataset.ready = "1";
}

/** A field was left, so it is judged. */
function onBlur({ target }) {
  if (!target.dataset.field) return;
  target.dataset.left = "1";
  whenReleased(() => requestAnimationFrame(render));
}

/** The browser brought the page back as it was when it was left: with its buttons pressed. */
function backAgain() {
  sure = false;
  if ($("#bk-quick-folder")) $("#bk-quick-folder").disabled = true;
  for (const [button, html] of pressed) {
    button.disabled = false;
    button.replaceChildren(...html);
  }
  pressed.clear();
  render();
}

// For a page that knows more than this form: what the server says of it while it is filled in.

/** Calls `work` after each change of the form and of the step. */
const onChange = (work) => watchers.push(work);

/** Takes in what the server says of the form as it stands: its errors, and what would happen. */
function judged({ errors, verdict: found }) {
  outlook = found;
  fromServer = placed(errors);
  render();
}

init();

export { judged, onChange, read };
export const atReview = () => current === LAST;
