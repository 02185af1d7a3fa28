// The state of the form: read as what would be posted, written from a link, a draft or old options.
// It lives in three places: the controls, the page's address (without values of variables) and a
// draft in this tab's storage.

const root = $("#backendai");
const form = root.closest("form");
const view = JSON.parse($("#backendai-view").textContent);
const SECRET = "env_value";
const FIELDS = /^(type|name|project|environment|image|env_name|env_value|resource_group|preset|cpu|mem|shm|fgpu|agent|omp|openblas|mount|new_folder|ports|version\..+|mount_path\..+|mount_permission\..+)$/;

const field = (name) => form.elements[name];
const chosen = (name) => $(`input[name="${name}"]:checked`, form)?.value ?? field(name)?.value ?? "";
const environment = () => view.environments.find((e) => e.name === chosen("environment"));
const group = () => view.resource_groups.find((g) => g.name === chosen("resource_group")) ?? view.resource_groups[0];

/** What the form stands at, as [name, value] pairs: exactly what a submit would post. */
const read = () => [...new FormData(form)].filter(([name]) => FIELDS.test(name));

/** Leaves out what says nothing: numbers as the preset has them, other environments' versions, folders not chosen. */
form.addEventListener("formdata", ({ formData }) => {
  for (const slot of SLOTS) if (!isOverride(slot)) formData.delete(slot);
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
  for (const name of ["name", "project", "image", "agent", "omp", "openblas", "ports"]) {
    const control = field(name);
    const value = one(name) ?? (name === "agent" ? "auto" : "");
    if (control && control.type !== "hidden") control.value = value;
    if (value && (!control || control.value !== value) && name !== "agent") missing.push(value);
  }
  for (const name of ["environment", "resource_group"]) {
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
  writeRows(all, one, missing);
  return missing;
}

// The address: #step=2&environment=..., without values of variables.

function hashOf(step) {
  const pairs = read().filter(([name, value]) => name !== SECRET && value !== "");
  return "#" + new URLSearchParams(step ? [["step", String(step)], ...pairs] : pairs);
}

const inLink = (name) => view.rules.link.fields.includes(name) || view.rules.link.prefixes.some((prefix) => name.startsWith(prefix));

/** The address as entries. One that this form did not write itself is a link, which may set no more
 * than links may: `refused` has the rest of it. */
function fromHash() {
  const pairs = [...new URLSearchParams(location.hash.slice(1))];
  const step = Number(pairs.find(([name]) => name === "step")?.[1]);
  const all = pairs.filter(([name]) => FIELDS.test(name) && name !== SECRET);
  const own = Boolean(history.state?.step);
  const entries = all.filter(([name]) => own || inLink(name));
  return { step: step >= 1 && step <= 5 ? step : null, entries, refused: all.filter((pair) => !entries.includes(pair)) };
}

// The draft: of this tab, for this page. Once it is posted, the server keeps what was typed, and the
// values of variables leave the storage, which the pages of a user's server could read.

// What was followed as a link has a draft of its own, and so has whoever else signs in in this tab.

const followed = new URLSearchParams(location.search);
for (const name of ["_xsrf", "next", "display_name"]) followed.delete(name);
const draftKey = ["backendai-draft", view.viewer ?? "", location.pathname, followed].join(":");

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
