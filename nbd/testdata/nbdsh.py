# Run by nbdsh, with the URI of an export of 64 MiB with 512-byte blocks in NBD_URI.
import errno, os
uri = os.environ["NBD_URI"]

def connect(**kw):
    h = nbd.NBD()
    h.set_strict_mode(0)
    for k, v in kw.items():
        getattr(h, k)(v)
    h.add_meta_context("base:allocation")
    h.connect_uri(uri)
    return h

def fails(want, f, *a, **kw):
    try:
        f(*a, **kw)
    except nbd.Error as e:
        assert e.errnum == want, (e, want)
        return
    assert False, "no error"

kinds = [dict(set_request_structured_replies=False), dict()]
if hasattr(nbd.NBD, "set_request_extended_headers"):
    kinds.append(dict(set_request_extended_headers=True))
for kw in kinds:
    h = connect(**kw)
    big = bytes(range(256)) * (32 * 1024 * 1024 // 256)
    h.pwrite(big, 0, nbd.CMD_FLAG_FUA)
    assert h.pread(len(big), 0) == big
    h.zero(1024 * 1024, 512, nbd.CMD_FLAG_NO_HOLE)
    h.zero(1024 * 1024, 8 << 20, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_FUA)
    h.trim(1024 * 1024, 16 << 20)
    h.flush()
    h.cache(4096, 0)
    assert h.pread(1024, 0) == big[:512] + bytes(512)
    fails(errno.EINVAL, h.pread, 512, 100)
    fails(errno.ENOSPC, h.pwrite, bytes(1024), (64 << 20) - 512)
    fails(errno.EINVAL, h.pread, 512, 64 << 20)
    fails(errno.EINVAL, h.trim, 512, 64 << 20)
    if h.get_structured_replies_negotiated():
        chunks = []
        def chunk(buf, offset, status, error):
            chunks.append((offset, len(buf), status))
        h.pread_structured(3 << 20, 4096, chunk, nbd.CMD_FLAG_DF)
        assert chunks == [(4096, 3 << 20, nbd.READ_DATA)], chunks
        extents = []
        h.block_status(64 << 20, 0, lambda ctx, off, e, err: extents.extend(e))
        assert sum(extents[0::2]) <= 64 << 20 and extents[1] == 0, extents
        extents = []
        h.block_status(1 << 20, 0, lambda ctx, off, e, err: extents.extend(e), nbd.CMD_FLAG_REQ_ONE)
        assert len(extents) == 2, extents
    h.shutdown()

h = nbd.NBD()
h.set_opt_mode(True)
h.connect_uri(uri)
names = []
h.opt_list(lambda name, desc: names.append((name, desc)))
assert names == [("disk", "a disk")], names
h.set_export_name("nope")
fails(errno.ENOENT, h.opt_info)
h.set_export_name("disk")
contexts = []
h.opt_list_meta_context(lambda c: contexts.append(c))
assert contexts == ["base:allocation"], contexts
h.opt_info()
assert h.get_size() == 64 << 20
h.opt_go()
h.pread(512, 0)
h.shutdown()
