// A small line of the last two minutes.

const most = 120;

// push adds a value and forgets what is older than the window.
export function push(values, value) {
  values.push(Number.isFinite(value) ? value : 0);
  if (values.length > most) values.shift();
  return values;
}

// path is the drawing of the values in a box of width × height: the newest is at the
// right edge, zero at the bottom, the largest near the top.
export function path(values, width, height) {
  if (values.length === 0) return '';
  const top = Math.max(1, ...values) * 1.1;
  const step = width / (most - 1);
  const start = width - (values.length - 1) * step;
  const at = values.map((v, i) => `${(start + i * step).toFixed(2)} ${(height - (v / top) * height).toFixed(2)}`);
  return `M${at.join('L')}`;
}

// draw puts a trace into its picture.
export function draw(svg, values) {
  const { width, height } = svg.viewBox.baseVal;
  const line = path(values, width, height);
  const step = width / (most - 1);
  const start = width - (values.length - 1) * step;
  svg.querySelector('.edge').setAttribute('d', line);
  svg.querySelector('.area').setAttribute('d', line && `${line}L${width} ${height}L${start.toFixed(2)} ${height}Z`);
}
