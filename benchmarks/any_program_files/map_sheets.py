# limit: thread,process | render_sheet|contour|Worker|pool|worker
import math
import multiprocessing as mp
import sys
import time


def contour(x, y, octaves):
    height = 0.0
    for o in range(octaves):
        height += math.sin(x * 1.7**o + y) * math.cos(y * 1.3**o - x) / (o + 1)
    return height


def render_sheet(sheet):
    number, detail = sheet
    total = 0.0
    for y in range(60):
        for x in range(60):
            total += contour(x / 9 + number, y / 9, detail)
    return number, total


def atlas(edition):
    return [(edition * 10 + k, 40 if k == 3 else 3) for k in range(5)]


if __name__ == "__main__":
    seconds = float(sys.argv[-1]) if len(sys.argv) > 1 else 6
    until = time.monotonic() + seconds
    printed = 0
    with mp.Pool(3) as pool:
        while time.monotonic() < until:
            printed += len(pool.map(render_sheet, atlas(printed), chunksize=1))
    print(printed, "sheets")
