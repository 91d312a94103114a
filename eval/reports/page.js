// A click on a heading sorts by it, another one turns the order round; what is empty stays last.
const sorted = (table, column, down) => {
  const body = table.tBodies[0];
  const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const filled = [...body.rows].filter(row => value(row) !== "");
  const empty = [...body.rows].filter(row => value(row) === "");
  const numeric = filled.every(row => row.cells[column].dataset.value !== undefined);
  const compare = (a, b) => numeric
    ? value(a) - value(b)
    : value(a).localeCompare(value(b), "en", {numeric: true});
  filled.sort((a, b) => down ? compare(b, a) : compare(a, b));
  body.append(...filled, ...empty);
};
for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = head.ariaSort;
      const down = order ? order === "ascending" : head.classList.contains("number");
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sorted(table, column, down);
    });
  });
}
// Plots are saved as they are drawn, or by a canvas, in the colours of light mode.
const save = (blob, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};
const drawing = figure => {
  const copy = figure.querySelector("svg").cloneNode(true);
  const {width, height} = copy.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  return {width, height, text: new XMLSerializer().serializeToString(copy)};
};
const asPng = (figure, name) => {
  const {width, height, text} = drawing(figure);
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = document.createElement("canvas");
    canvas.width = 4 * width;
    canvas.height = 4 * height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(blob => save(blob, name));
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
};
for (const figure of document.querySelectorAll("figure")) {
  const saving = figure.querySelector(".saving");
  const title = figure.querySelector("h2").textContent;
  const name = title
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9@.]+/g, "-")
    .replace(/^[-.]+|-$/g, "")
    .slice(0, 80);
  const offered = {
    SVG: () => save(new Blob([drawing(figure).text], {type: "image/svg+xml"}), `${name || "plot"}.svg`),
    PNG: () => asPng(figure, `${name || "plot"}.png`),
  };
  for (const [form, action] of Object.entries(offered)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = form;
    button.setAttribute("aria-label", `Save as ${form}: ${title}`);
    button.addEventListener("click", action);
    saving.append(button);
  }
}
