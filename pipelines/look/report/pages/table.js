// Filters a page's table: words that a row must hold, and what the selects say of it. Without this script it is a table.
// Rows are shown some at a time, as the style sheet does until this script runs: a browser is slow to lay out thousands.
"use strict";
const STEP = 200;
const form = document.getElementById("filter");
const table = document.querySelector("table.answers");
const selects = Array.from(form.querySelectorAll("select"));
const rows = Array.from(table.querySelectorAll("tbody tr"), (row) => ({
  row,
  text: row.textContent.toLowerCase(),
  isWanted: true,
}));
const more = document.getElementById("more");
let limit = STEP;

function matches({ row, text }) {
  const words = form.elements.words.value.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word))
    && selects.every(({ name, value }) => !value || row.dataset[name] === value);
}

function show() {
  let wanted = 0;
  for (const { row, isWanted } of rows) {
    wanted += isWanted;
    row.hidden = !isWanted || wanted > limit;
  }
  more.hidden = wanted <= limit;
  more.textContent = `Show ${Math.min(STEP, wanted - limit).toLocaleString("en")} more`;
  const shown = wanted > limit ? `, the first ${limit.toLocaleString("en")} shown` : "";
  form.querySelector("output").value = `${wanted.toLocaleString("en")} of ${rows.length.toLocaleString("en")}${shown}`;
}

function filter() {
  for (const each of rows) {
    each.isWanted = matches(each);
  }
  limit = STEP;
  show();
}

// An apostrophe keeps a spreadsheet from computing a text as a formula, as in answers.csv; a number stays a number.
function cell(text) {
  const plain = text.trim().replace(/\s+/g, " ");
  const isNumber = /^-?\d+(\.\d+)?$/.test(plain);
  const harmless = isNumber ? plain : plain.replace(/^[=+\-@\uff1d\uff0b\uff0d\uff20]/, "'$&");
  return `"${harmless.replaceAll('"', '""')}"`;
}

// A column is an element of the row, the address of the link in one, or what the row says for a select.
function value(row, column) {
  const element = row.querySelector(`[data-column="${column}"]`);
  if (element && "link" in element.dataset) {
    return element.querySelector("a")?.href ?? "";
  }
  return element ? element.textContent : (row.dataset[column] ?? "").replace(/^-$/, "");
}

function download() {
  const columns = table.dataset.columns.split(" ");
  const lines = [columns.map(cell)];
  for (const { row } of rows.filter((each) => each.isWanted)) {
    lines.push(columns.map((column) => cell(value(row, column))));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", lines.map((each) => each.join(",")).join("\n"), "\n"], { type: "text/csv" }));
  link.download = table.dataset.file;
  link.click();
  URL.revokeObjectURL(link.href);
}

form.hidden = false;
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.querySelector("button").addEventListener("click", download);
more.addEventListener("click", () => {
  limit += STEP;
  show();
});
window.addEventListener("beforeprint", () => {
  limit = rows.length;
  show();
});
filter();
table.classList.add("paged");
