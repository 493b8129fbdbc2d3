//go:build cgo && linux && !nordma

package ibv

// #cgo CFLAGS: -std=gnu11 -O2
// #cgo LDFLAGS: -ldl
// #cgo noescape shim_post_send
// #cgo nocallback shim_post_send
// #cgo noescape shim_post_recv
// #cgo nocallback shim_post_recv
// #cgo noescape shim_poll
// #cgo nocallback shim_poll
// #cgo nocallback shim_req_notify
// #cgo nocallback shim_cq_event
// #include "shim_linux.h"
import "C"

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// The records are handed over as they are: each array has a negative length, and
// does not compile, if its two sizes differ.
var (
	_ [unsafe.Sizeof(sendRecord{}) - C.sizeof_struct_shim_send]struct{}
	_ [C.sizeof_struct_shim_send - unsafe.Sizeof(sendRecord{})]struct{}
	_ [unsafe.Sizeof(recvRecord{}) - C.sizeof_struct_shim_recv]struct{}
	_ [C.sizeof_struct_shim_recv - unsafe.Sizeof(recvRecord{})]struct{}
	_ [unsafe.Sizeof(wcRecord{}) - C.sizeof_struct_shim_wc]struct{}
	_ [C.sizeof_struct_shim_wc - unsafe.Sizeof(wcRecord{})]struct{}
	_ [unsafe.Sizeof(verbs.SGE{}) - C.sizeof_struct_shim_sge]struct{}
	_ [C.sizeof_struct_shim_sge - unsafe.Sizeof(verbs.SGE{})]struct{}
)

// rdmaCore is the library itself.
type rdmaCore struct{}

// loadLibrary finds rdma-core. The libraries are loaded once a process.
var loadLibrary = sync.OnceValues(func() (library, error) {
	var why *C.char
	if missing := C.shim_load(&why); missing != nil {
		return nil, &missingLibraryError{what: C.GoString(missing), why: C.GoString(why)}
	}
	return rdmaCore{}, nil
})

// errno makes an error of a result of the shim.
func errno(rc C.int) error {
	if rc == 0 {
		return nil
	}
	return unix.Errno(rc)
}

func (rdmaCore) devices() ([]uintptr, error) {
	var contexts [256]C.uintptr_t
	n := C.shim_devices(&contexts[0], C.uint32_t(len(contexts)))
	if n < 0 {
		return nil, errno(-n)
	}
	out := make([]uintptr, n)
	for i := range out {
		out[i] = uintptr(contexts[i])
	}
	return out, nil
}

func (rdmaCore) queryDevice(context uintptr) (deviceInfo, error) {
	var d C.struct_shim_device
	if err := errno(C.shim_query_device(C.uintptr_t(context), &d)); err != nil {
		return deviceInfo{}, err
	}
	return deviceInfo{
		name: C.GoString(&d.name[0]), asyncFD: int(d.async_fd), cmdFD: int(d.cmd_fd), iwarp: d.iwarp != 0,
		vendorID: uint32(d.vendor_id), maxMRSize: uint64(d.max_mr_size),
		maxQPWR: limit(d.max_qp_wr), maxSGE: limit(d.max_sge), maxSGERead: limit(d.max_sge_rd),
		maxCQE: limit(d.max_cqe), maxMR: limit(d.max_mr),
		maxQPRdAtom: limit(d.max_qp_rd_atom), maxQPInitRdAtom: limit(d.max_qp_init_rd_atom),
		sendWithInv: d.send_with_inv != 0,
	}, nil
}

// limit reads a count that devices without a limit report as negative.
func limit(n C.uint32_t) int { return int(min(n, 1<<31-1)) }

func (rdmaCore) portMTU(context uintptr, port int) int {
	return int(C.shim_port_mtu(C.uintptr_t(context), C.uint8_t(port)))
}

func (rdmaCore) asyncEvent(context uintptr) (asyncEvent, uint64, error) {
	var kind C.int32_t
	var handle C.uint64_t
	err := errno(C.shim_async_event(C.uintptr_t(context), &kind, &handle))
	return asyncEvent(kind), uint64(handle), err
}

func (rdmaCore) allocPD(context uintptr) (uintptr, error) {
	var pd C.uintptr_t
	err := errno(C.shim_alloc_pd(C.uintptr_t(context), &pd))
	return uintptr(pd), err
}

func (rdmaCore) deallocPD(pd uintptr) error { return errno(C.shim_dealloc_pd(C.uintptr_t(pd))) }

func (rdmaCore) regMR(pd uintptr, mem []byte, access verbs.Access) (mrInfo, error) {
	var mr C.uintptr_t
	var lkey, rkey C.uint32_t
	err := errno(C.shim_reg_mr(C.uintptr_t(pd), C.uint64_t(verbs.AddrOf(mem)), C.uint64_t(len(mem)), C.uint32_t(access), &mr, &lkey, &rkey))
	return mrInfo{mr: uintptr(mr), lkey: uint32(lkey), rkey: uint32(rkey)}, err
}

func (rdmaCore) deregMR(mr uintptr) error { return errno(C.shim_dereg_mr(C.uintptr_t(mr))) }

func (rdmaCore) createChannel(context uintptr) (uintptr, int, error) {
	var channel C.uintptr_t
	var fd C.int32_t
	err := errno(C.shim_create_channel(C.uintptr_t(context), &channel, &fd))
	return uintptr(channel), int(fd), err
}

func (rdmaCore) destroyChannel(channel uintptr) error {
	return errno(C.shim_destroy_channel(C.uintptr_t(channel)))
}

func (rdmaCore) createCQ(context uintptr, depth int, handle uint64, channel uintptr) (uintptr, error) {
	var cq C.uintptr_t
	err := errno(C.shim_create_cq(C.uintptr_t(context), C.uint32_t(depth), C.uint64_t(handle), C.uintptr_t(channel), &cq))
	return uintptr(cq), err
}

func (rdmaCore) destroyCQ(cq uintptr) error { return errno(C.shim_destroy_cq(C.uintptr_t(cq))) }

func (a *qpAttr) native() C.struct_shim_qp_attr {
	n := C.struct_shim_qp_attr{
		send_cq: C.uintptr_t(a.sendCQ), recv_cq: C.uintptr_t(a.recvCQ), handle: C.uint64_t(a.handle),
		max_send_wr: C.uint32_t(a.cap.MaxSendWR), max_recv_wr: C.uint32_t(a.cap.MaxRecvWR),
		max_send_sge: C.uint32_t(a.cap.MaxSendSGE), max_recv_sge: C.uint32_t(a.cap.MaxRecvSGE),
		max_inline: C.uint32_t(a.cap.MaxInlineData),
	}
	if a.sigAll {
		n.sig_all = 1
	}
	return n
}

func (rdmaCore) tryQP(pd uintptr, attr qpAttr) (int, error) {
	n := attr.native()
	var inline C.uint32_t
	err := errno(C.shim_try_qp(C.uintptr_t(pd), &n, &inline))
	return int(inline), err
}

func (rdmaCore) poll(cq uintptr, out []wcRecord) int {
	if len(out) == 0 {
		return 0
	}
	return max(0, int(C.shim_poll(C.uintptr_t(cq), (*C.struct_shim_wc)(unsafe.Pointer(&out[0])), C.uint32_t(len(out)))))
}

func (rdmaCore) reqNotify(cq uintptr) error { return errno(C.shim_req_notify(C.uintptr_t(cq))) }

func (rdmaCore) cqEvent(channel uintptr) error { return errno(C.shim_cq_event(C.uintptr_t(channel))) }

func (rdmaCore) postSend(qp uintptr, wrs []sendRecord, sges []verbs.SGE) (int, error) {
	return taken(C.shim_post_send(C.uintptr_t(qp), (*C.struct_shim_send)(unsafe.Pointer(unsafe.SliceData(wrs))), C.uint32_t(len(wrs)),
		(*C.struct_shim_sge)(unsafe.Pointer(unsafe.SliceData(sges)))))
}

func (rdmaCore) postRecv(qp uintptr, wrs []recvRecord, sges []verbs.SGE) (int, error) {
	return taken(C.shim_post_recv(C.uintptr_t(qp), (*C.struct_shim_recv)(unsafe.Pointer(unsafe.SliceData(wrs))), C.uint32_t(len(wrs)),
		(*C.struct_shim_sge)(unsafe.Pointer(unsafe.SliceData(sges)))))
}

// taken takes the result of a post apart.
func taken(r C.uint64_t) (int, error) { return int(r >> 32), errno(C.int(r & 0xffffffff)) }

func (rdmaCore) setQPError(qp uintptr) error { return errno(C.shim_qp_error(C.uintptr_t(qp))) }

func (rdmaCore) qpState(qp uintptr) (verbs.QPState, error) {
	s := C.shim_qp_state(C.uintptr_t(qp))
	if s < 0 {
		return verbs.QPStateERR, errno(-s)
	}
	return verbs.QPState(s), nil
}
