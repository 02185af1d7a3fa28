// What comes in rows: variables, folders, ports.

const envRows = $("#bk-env-rows");
const folderRows = $("#bk-folder-rows");
let rowsMade = 1000; // ids of rows made here; the server's rows count from 0

function addEnvRow(name = "", value = "") {
  const id = `bk-env-${rowsMade++}`;
  const model = $(".bk-envrow.no-js input[name=env_name]", blankRow);
  const nameInput = el("input", {
    class: "form-control form-control-sm font-monospace", id, name: "env_name", "aria-label": "Name", placeholder: "Name",
    maxlength: model.maxLength, pattern: model.pattern, title: model.title, autocomplete: "off", spellcheck: "false",
    autocapitalize: "off", "aria-describedby": `${id}-error`, "data-field": `env.${id}`,
  });
  const valueInput = el("input", { class: "form-control form-control-sm", name: SECRET, "aria-label": "Value", placeholder: "Value", autocomplete: "off", spellcheck: "false" });
  [nameInput.value, valueInput.value] = [name, value];
  envRows.append(el("div", { class: "bk-envrow" }, nameInput, valueInput,
    el("button", { class: "btn btn-sm btn-quiet btn-icon", type: "button", "data-remove-env": true, "aria-label": "Remove this variable" }, icon("xmark")),
    el("div", { class: "invalid-feedback", id: `${id}-error`, "data-for": `env.${id}` })));
  return nameInput;
}

// The blank rows of the long form give new rows their constraints, and are not posted any more.
const blankRow = document.createDocumentFragment();
blankRow.append(...$$(".bk-envrow.no-js", envRows));

// Folders

const folderRow = (name) => folderRows && $(`tr[data-folder="${CSS.escape(name)}"]`, folderRows);
const isOn = (row) => $("input[type=checkbox]", row).checked;

/** The chosen folders in the order they are posted in: those that are there, then the new ones. */
const mountRows = () => (folderRows ? [...$$("tr[data-folder]:not(.new)", folderRows), ...$$("tr.new", folderRows)].filter(isOn) : []);

/** Where a folder will be inside the session; the server decides whether it may. */
function placeOf(row) {
  const path = $("td.path input", row).value.trim() || $("td.path input", row).dataset.base;
  return path.startsWith("/") ? path : `${view.home}/${path}`;
}

const permissionOf = (row) => ($("td.perm select", row)?.value ?? ($("td.perm input", row) ? "ro" : "rw")) === "ro" ? "read only" : "read, write";

/** A row for a folder that is created at launch; a row of that name that is there already is chosen instead. */
function addFolder(name, path = "") {
  let row = folderRow(name);
  if (!row) {
    row = el("tr", { class: "new", "data-folder": name, tabindex: "-1" },
      el("td", {}, el("input", { class: "form-check-input", type: "checkbox", name: "new_folder", value: name, "aria-label": `Create ${name}` })),
      el("td", {}, `${name} `, el("span", { class: "bk-tag ms-1" }, "new")),
      el("td", { class: "path" },
        el("input", { class: "form-control form-control-sm", name: `mount_path.${name}`, placeholder: `${view.home}/${name}`, "aria-label": `Path of ${name} inside the session`, maxlength: 255, autocomplete: "off", spellcheck: "false", autocapitalize: "off", "data-base": name }),
        el("div", { class: "invalid-feedback", "data-mount-error": true })),
      el("td", { class: "perm" }, el("span", { class: "bk-14 bk-quiet" }, "read, write")));
    folderRows.append(row);
  }
  $("input[type=checkbox]", row).checked = true;
  if (path) $("td.path input", row).value = path;
  renderFolders();
  return row;
}

/** The name in a new-folder field, "" if there is none or it cannot be one; says so at the field. */
function folderName(input) {
  input.value = input.value.trim();
  const fine = input.checkValidity();
  input.classList.toggle("is-invalid", !fine);
  $(`#${input.id}-error`).textContent = fine ? "" : input.title;
  return fine ? input.value : "";
}

/** A name that was typed becomes a row. */
function takeNewFolder() {
  const input = $("#bk-new"), name = folderName(input);
  if (!name) return null;
  input.value = "";
  return addFolder(name);
}

function renderFolders() {
  if (!folderRows) return;
  for (const row of $$("tr[data-folder]", folderRows)) row.classList.toggle("on", isOn(row));
  const empty = $(".bk-nofolders", folderRows);
  if (empty) empty.hidden = $$("tr[data-folder]", folderRows).length > 0;
}

function search() {
  const text = $("#bk-search").value.trim().toLowerCase();
  let found = 0;
  for (const row of $$("tr[data-folder]", folderRows)) {
    row.hidden = !row.dataset.folder.toLowerCase().includes(text);
    found += row.hidden ? 0 : 1;
  }
  $("#bk-search-none").hidden = found > 0 || !text;
}

// Ports

const PORT = new RegExp(`^(?:${view.ports.pattern})$`);

/** The ports field as tags: each token, and what the server says of ports like it. */
function ports() {
  const closed = [...view.ports.closed, ...(environment()?.closed_ports ?? [])];
  return field("ports").value.split(/[\s,]+/).filter(Boolean).map((text) => {
    const found = text.match(PORT);
    if (!found) return { text, wrong: view.ports.text.replace("{text}", text) };
    const first = Number(found[1]), last = Number(found[2] ?? found[1]);
    const [from, , why] = closed.find(([low, high]) => low <= last && first <= high) ?? [];
    return { text, wrong: why && `Port ${Math.max(first, from)} ${why}` };
  });
}

function renderPorts(changed) {
  $("#bk-port-tags").replaceChildren(...ports().map(({ text, wrong }, index) =>
    el("span", { class: `bk-tag bk-num ${wrong ? "bad" : ""}` }, wrong ? icon("circle-exclamation") : null, text,
      el("button", { type: "button", "aria-label": `Remove ${text}`, onclick: () => {
        field("ports").value = ports().map((p) => p.text).filter((_, i) => i !== index).join(", ");
        changed();
        field("ports").focus();
      } }, icon("xmark")))));
}

/** Rows as `write` (fields.js) wants them. */
function writeRows(all, one, missing) {
  $$(".bk-envrow", envRows).forEach((row) => row.remove());
  const values = all(SECRET);
  all("env_name").forEach((name, i) => addEnvRow(name, values[i] ?? ""));
  if (!folderRows) return;
  $$("tr.new", folderRows).forEach((row) => row.remove());
  for (const row of $$("tr[data-folder]", folderRows)) $("input[type=checkbox]", row).checked = false;
  for (const name of all("mount")) {
    const row = folderRow(name);
    if (!row) { missing.push(name); continue; }
    $("input[type=checkbox]", row).checked = true;
    $("td.path input", row).value = one(`mount_path.${name}`) ?? "";
    const select = $("td.perm select", row);
    if (select) select.value = one(`mount_permission.${name}`) ?? "rw";
  }
  for (const name of all("new_folder").filter(Boolean)) addFolder(name, one(`mount_path.${name}`));
}

function initRows(changed) {
  $("#bk-env-add").addEventListener("click", () => addEnvRow().focus());
  envRows.addEventListener("click", (event) => {
    const button = event.target.closest("[data-remove-env]");
    if (!button) return;
    button.parentElement.remove();
    $("#bk-env-add").focus();
    changed();
  });
  if (!folderRows) return;
  $("#bk-search").addEventListener("input", search);
  const add = () => {
    const row = takeNewFolder();
    if (!row) return $("#bk-new").focus();
    $("input[type=checkbox]", row).focus();
    changed();
  };
  $("#bk-new-add")?.addEventListener("click", add);
  $("#bk-new").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.value.trim()) return;
    event.preventDefault();
    add();
  });
}
