// Filters the table of answers: words that a row must hold, its state, and what people judged. Without this script it is a table.
"use strict";
const form = document.getElementById("filter");
const rows = Array.from(document.querySelectorAll("table.answers tbody tr"), (row) => ({
  row,
  text: row.textContent.toLowerCase(),
}));

function matches({ row, text }) {
  const words = form.elements.words.value.toLowerCase().split(/\s+/);
  const { state, judged } = form.elements;
  return words.every((word) => text.includes(word))
    && (!state.value || row.dataset.state === state.value)
    && (!judged.value || row.dataset.judged === judged.value);
}

function filter() {
  let shown = 0;
  for (const each of rows) {
    each.row.hidden = !matches(each);
    shown += !each.row.hidden;
  }
  form.querySelector("output").value = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
}

// An apostrophe keeps a spreadsheet from computing a text as a formula, as in answers.csv; a number stays a number.
function cell(text) {
  const plain = text.trim().replace(/\s+/g, " ");
  const isNumber = /^-?\d+(\.\d+)?$/.test(plain);
  const harmless = isNumber ? plain : plain.replace(/^[=+\-@\uff1d\uff0b\uff0d\uff20]/, "'$&");
  return `"${harmless.replaceAll('"', '""')}"`;
}

function download() {
  const lines = [["question", "id", "answer", "page", "state", "judged", "score"].map(cell)];
  for (const { row } of rows.filter((each) => !each.row.hidden)) {
    const texts = (query) => row.querySelector(query)?.textContent ?? "";
    const page = row.querySelector(".source a")?.href ?? "";
    lines.push([
      texts("td span"), texts("td small"), texts(".passage"), page, row.dataset.state,
      row.dataset.judged.replace("-", ""), row.lastElementChild.textContent,
    ].map(cell));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", lines.map((each) => each.join(",")).join("\n"), "\n"], { type: "text/csv" }));
  link.download = "answers-filtered.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

form.hidden = false;
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.querySelector("button").addEventListener("click", download);
filter();
