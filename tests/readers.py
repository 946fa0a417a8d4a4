"""Reads what a test has saved with numpy, zarr-python and xarray, and writes arrays for it to load. The value of a field at a
point (i, j) is a function of i and j. The tree begins at point (-2, 5)."""

import sys
import numpy
import xarray
import zarr

directory = sys.argv[1]
i, j = numpy.meshgrid(numpy.arange(-2, 9), numpy.arange(5, 18), indexing="ij")
real = i * 100.0 + j / 4
vector = numpy.stack([i, j, i * j], axis=-1).astype("i2")
complex_ = real + 1j * j
structure = numpy.zeros(i.shape, dtype=[("x", "f8"), ("id", "u4"), ("kind", "u2", 2)])
structure["x"], structure["id"], structure["kind"][..., 1] = real, j, j - 5


def expect(what, found, expected):
    assert found.shape == expected.shape and found.dtype == expected.dtype, (what, found.shape, found.dtype)
    assert numpy.array_equal(found, expected), what


group = zarr.open_group(f"{directory}/tree", mode="r")
assert sorted(group) == ["complex", "real", "structure", "vector"], sorted(group)
assert group["real"].attrs["maniple"]["origin"] == [-2, 5]
expect("real", group["real"][:], real)
expect("vector", group["vector"][:], vector)
expect("complex", group["complex"][:], complex_)
expect("structure", group["structure"][:].view(structure.dtype)[..., 0], structure)

data = xarray.open_zarr(f"{directory}/tree")
assert data["real"].dims == ("x0", "x1") and data.vector.dims == ("x0", "x1", "vector_0"), data
expect("real by xarray", data["real"].values, real)
expect("a sum by xarray", data.vector.sum(("x0", "x1")).values, vector.sum((0, 1)))

expect("real by numpy", numpy.load(f"{directory}/real.npy"), real)
expect("vector by numpy", numpy.load(f"{directory}/vector.npy"), vector)

# For the test: chunks of another size, a checksum or none, chunks that are not there as they are zero, the other names of chunks.
part = numpy.where(i < 3, 0, real)
def create(name, **options):
    array = zarr.create_array(f"{directory}/{name}", shape=part.shape, dtype="f8", **options)
    array[:] = part


create("theirs", chunks=(4, 5), compressors=None)
names = {"name": "v2", "separator": "."}
create("checked", chunks=(3, 13), compressors=zarr.codecs.Crc32cCodec(), chunk_key_encoding=names)
create("compressed", chunks=(4, 5))
numpy.save(f"{directory}/theirs.npy", part)
numpy.save(f"{directory}/fortran.npy", numpy.asfortranarray(part))
print("read and written")
