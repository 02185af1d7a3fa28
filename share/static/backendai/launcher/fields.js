// The state of the form: read as what would be posted, written from a link, a draft or old options.
// It lives in three places: the controls, the page's address (without what looks secret) and a draft in
// this tab's storage.

const root = $("#backendai");
const form = root.closest("form");
const view = JSON.parse($("#backendai-view").textContent);
const SECRET = "env_value";
const FIELDS = /^(type|name|project|environment|image|env_name|env_value|resource_group|preset|cpu|mem|shm|fgpu|gpu|mig|mig_profile|agent|omp|openblas|mount|new_folder|ports|version\..+|mount_path\..+|mount_permission\..+|command|starts_at|timeout|timeout_unit|count|priority|owner|depends_on|depends_on_names)$/;
const BATCH_ONLY = ["command", "starts_at", "timeout", "timeout_unit"];

const field = (name) => form.elements[name];
const chosen = (name) => $(`input[name="${name}"]:checked`, form)?.value ?? field(name)?.value ?? "";
const isBatch = () => chosen("type") === "batch";
const environment = () => view.environments.find((e) => e.name === chosen("environment"));
const group = () => view.resource_groups.find((g) => g.name === chosen("resource_group")) ?? view.resource_groups[0];

/** What the form stands at, as [name, value] pairs: exactly what a submit would post. */
const read = () => [...new FormData(form)].filter(([name]) => FIELDS.test(name));

/** Leaves out what says nothing: numbers as the preset has them, other environments' versions, folders not chosen,
 * what only a batch session has. */
form.addEventListener("formdata", ({ formData }) => {
  if (!isBatch()) for (const name of BATCH_ONLY) formData.delete(name);
  if (!formData.get("timeout")) formData.delete("timeout_unit");
  for (const slot of SLOTS) if (!isOverride(slot)) formData.delete(slot);
  if (!otherProfile()) formData.delete("mig_profile");
  formData.delete("gpu_kind");
  for (const e of view.environments) if (e !== environment()) formData.delete(`version.${e.name}`);
  const rows = $$("#bk-folder-rows tr[data-folder]");
  for (const row of rows.filter((r) => !$("input[type=checkbox]", r).checked)) {
    formData.delete(`mount_path.${row.dataset.folder}`);
    formData.delete(`mount_permission.${row.dataset.folder}`);
  }
  const names = formData.getAll("env_name"), values = formData.getAll(SECRET);
  formData.delete("env_name");
  formData.delete(SECRET);
  names.forEach((name, i) => {
    if (!name && !values[i]) return;
    formData.append("env_name", name);
    formData.append(SECRET, values[i]);
  });
});

function choose(name, value) {
  const inputs = $$(`input[name="${name}"]`, form).filter((i) => i.type === "radio" && i.value === value && !i.disabled);
  const input = inputs.find((i) => !i.closest("[hidden]")) ?? inputs[0];
  if (input) input.checked = true;
  return Boolean(input);
}

/** Puts `entries` into the form in place of what is there; returns what this site does not offer. */
function write(entries) {
  const all = (name) => entries.filter(([key]) => key === name).map(([, value]) => value);
  const one = (name) => all(name)[0];
  const missing = [];
  form.reset();
  for (const name of ["name", "project", "image", "agent", "omp", "openblas", "ports", "owner", "command", "starts_at", "timeout", "timeout_unit", "count", "priority", "depends_on_names"]) {
    const control = field(name);
    const given = one(name), value = given ?? { agent: "auto", timeout_unit: "h" }[name] ?? "";
    if (control && control.type !== "hidden") control.value = value;
    if (given && (!control || control.value !== given) && name !== "agent") missing.push(given);
  }
  for (const box of $$("input[name=depends_on]", form)) box.checked = all("depends_on").includes(box.value);
  for (const name of ["type", "environment", "resource_group"]) {
    const value = one(name);
    if (value && chosen(name) !== value && !choose(name, value)) missing.push(value);
  }
  const version = one(`version.${chosen("environment")}`);
  const select = field(`version.${chosen("environment")}`);
  if (version && select) {
    select.value = version;
    if (select.value !== version) { select.selectedIndex = 0; missing.push(version); }
  }
  groupChanged(one("preset") ?? "");
  if (one("preset") && chosen("preset") !== one("preset")) missing.push(one("preset"));
  for (const slot of SLOTS) if (one(slot) !== undefined && amountInput(slot)) amountInput(slot).value = one(slot);
  if (one("mig_profile") && field("mig_profile")) field("mig_profile").value = one("mig_profile");
  writeRows(all, one, missing);
  return missing;
}

// The address. The Hub's server takes the query of its page for a link, so there the state is behind the #;
// the service's own page has it in the query, and fills the form from it without any script too.

const LONGEST = 6000; // characters of an address that every browser, proxy and server takes
const inLink = (name) => view.rules.link.fields.includes(name) || view.rules.link.prefixes.some((prefix) => name.startsWith(prefix));
const looksSecret = (name) => view.rules.secrets.some((word) => name.toUpperCase().includes(word));

/** What of the form may be in an address: nobody else's name, and no value that looks secret. */
function told(pairs) {
  let variable = "";
  return pairs.filter(([name, value]) => value !== "" && name !== "owner").flatMap(([name, value]) => {
    if (name === "env_name") variable = value;
    if (name !== SECRET) return [[name, value]];
    return view.service ? [[name, looksSecret(variable) ? "" : value]] : [];
  });
}

const written = (pairs) => (view.service ? "?" : "#") + new URLSearchParams(pairs);

/** The address that brings this form back to who made it. */
function addressOf(step) {
  const pairs = [["step", String(step)], ...told(read())];
  const whole = written(pairs);
  return whole.length <= LONGEST ? whole : written(pairs.filter(([name]) => name !== "command"));
}

/** The address of a link for others, with what links may set. */
const linkTo = () => location.origin + location.pathname + written(told(read()).filter(([name]) => !view.service || inLink(name)));

/** The address as entries. One that this form did not write itself is a link, which may set no more
 * than links may: `refused` has the rest of it. */
function fromAddress() {
  const pairs = [...new URLSearchParams((view.service ? location.search : location.hash).slice(1))];
  const step = Number(pairs.find(([name]) => name === "step")?.[1]);
  const all = pairs.filter(([name]) => FIELDS.test(name) && (view.service || name !== SECRET));
  const own = Boolean(history.state?.step);
  const entries = all.filter(([name]) => own || inLink(name));
  return { step: step >= 1 && step <= 5 ? step : null, own, entries, refused: all.filter((pair) => !entries.includes(pair)) };
}

// The draft: of this tab, for this page. Once it is posted, the server keeps what was typed, and the
// values of variables leave the storage, which the pages of a user's server could read.

// What was followed as a link has a draft of its own, and so has whoever else signs in in this tab.

function followed() {
  const query = new URLSearchParams(location.search);
  if (view.service && query.has("step")) return ""; // the form's own address, not what was followed
  for (const name of ["_xsrf", "next", "display_name"]) query.delete(name);
  return String(query);
}

const origin = history.state?.origin ?? followed();
const draftKey = ["backendai-draft", view.viewer ?? "", location.pathname, origin].join(":");

/** What the browser keeps with an entry of its history. */
const entryOf = (step) => ({ step, origin });

function keepDraft(step, posted = false) {
  const entries = read().map(([name, value]) => [name, posted && name === SECRET ? "" : value]);
  try {
    const errors = fromServer.map((error) => error.field); // those that nothing has been done about
    sessionStorage.setItem(draftKey, JSON.stringify({ step, posted, entries, errors }));
  } catch { /* storage is off: the address still has it */ }
}

function draft() {
  try {
    return JSON.parse(sessionStorage.getItem(draftKey));
  } catch {
    return null;
  }
}
