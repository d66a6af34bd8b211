// Where the tiles of the map are: as large as the box allows.

const heading = 26, label = 18, pad = 7, between = 10;
const smallest = 7, tallest = 160, widest = 2.2; // of a tile: least and most height, and width by height
const shapes = [0.4, 0.7, 1, 1.8, 3, 6, 1e6]; // of a rack: columns by rows

// layout places the nodes of zones in a box. It returns the size of a tile, the tiles, the boxes of racks, the titles
// of zones, and the height that all of them need, which is more than that of the box if the smallest tiles do not fit.
export function layout(zones, width, height) {
  const nodes = zones.reduce((sum, zone) => sum + zone.racks.reduce((more, rack) => more + rack.keys.length, 0), 0);
  let best;
  for (const shape of shapes) {
    const fits = (w, h) => w * h * nodes <= width * height && w + 2 * pad <= width && place(zones, w, h, shape, width).height <= height;
    let h = tallest;
    while (h > smallest && !fits(h, h)) h--;
    let w = h;
    while (w < h * widest && fits(w + 1, h)) w++;
    while (h < tallest && h < w && fits(w, h + 1)) h++;
    const one = place(zones, w, h, shape, width);
    if (!best || w * h > best.w * best.h || (w * h === best.w * best.h && one.height < best.height)) best = one;
  }
  const tiles = [];
  for (const box of best.boxes) {
    box.keys.forEach((key, i) => tiles.push({ key, x: box.x + box.inside + (i % box.columns) * (best.w + best.gap), y: box.y + box.top + Math.floor(i / box.columns) * (best.h + best.gap) }));
  }
  return { ...best, tiles };
}

// place finds the boxes of the racks for tiles of one size. Racks stand side by side while there is room.
function place(zones, w, h, shape, width) {
  const gap = h >= 40 ? 5 : h >= 14 ? 3 : h >= 10 ? 2 : 1;
  const boxes = [], titles = [];
  let y = 0;
  for (const zone of zones) {
    if (zone.name) {
      titles.push({ text: zone.name, count: zone.racks.reduce((sum, rack) => sum + rack.keys.length, 0), y });
      y += heading;
    }
    let x = 0, row = 0;
    for (const { name, keys } of zone.racks) {
      const inside = name ? pad : 0, top = name ? label + pad : 0, least = name ? Math.min(98, width) : 0;
      const most = Math.max(1, Math.floor((width - 2 * inside + gap) / (w + gap)));
      const columns = Math.min(most, keys.length, Math.max(Math.ceil(Math.sqrt(keys.length * shape)), Math.floor((least - 2 * inside + gap) / (w + gap))));
      const box = { name, keys, columns, inside, top, w: Math.max(least, columns * (w + gap) - gap + 2 * inside), h: top + Math.ceil(keys.length / columns) * (h + gap) - gap + inside };
      if (x > 0 && x + box.w > width) {
        y += row + between;
        x = row = 0;
      }
      boxes.push(Object.assign(box, { x, y }));
      x += box.w + between;
      row = Math.max(row, box.h);
    }
    y += row + between;
  }
  return { w, h, gap, boxes, titles, height: Math.max(y - between, 0) };
}
