//go:build cgo && linux && !nordma

package ibv

// #include "shim_linux.h"
import "C"

import (
	"unsafe"
)

func (rdmaCore) createEventChannel() (uintptr, int, error) {
	var channel C.uintptr_t
	var fd C.int32_t
	err := errno(C.shim_create_event_channel(&channel, &fd))
	return uintptr(channel), int(fd), err
}

func (rdmaCore) cmEvent(channel uintptr, out *cmEvent) error {
	var e C.struct_shim_cm_event
	if err := errno(C.shim_cm_event(C.uintptr_t(channel), &e)); err != nil {
		return err
	}
	*out = cmEvent{handle: uint64(e.handle), id: uintptr(e.id), event: cmEventType(e.event), status: int32(e.status),
		conn: connRecord{responderResources: uint8(e.conn.responder_resources), initiatorDepth: uint8(e.conn.initiator_depth)}}
	if n := int(e.conn.private_len); n > 0 {
		out.conn.privateData = C.GoBytes(unsafe.Pointer(&e.conn.private_data[0]), C.int(n))
	}
	return nil
}

func (rdmaCore) createID(channel uintptr, handle uint64) (uintptr, error) {
	var id C.uintptr_t
	err := errno(C.shim_create_id(C.uintptr_t(channel), C.uint64_t(handle), &id))
	return uintptr(id), err
}

func (rdmaCore) setHandle(id uintptr, handle uint64) {
	C.shim_set_handle(C.uintptr_t(id), C.uint64_t(handle))
}

func (rdmaCore) destroyID(id uintptr) error { return errno(C.shim_destroy_id(C.uintptr_t(id))) }

func (rdmaCore) queryID(id uintptr) idInfo {
	var i C.struct_shim_id
	C.shim_query_id(C.uintptr_t(id), &i)
	return idInfo{context: uintptr(i.context), port: int(i.port),
		src: *(*sockaddr)(unsafe.Pointer(&i.src)), dst: *(*sockaddr)(unsafe.Pointer(&i.dst))}
}

func (rdmaCore) setTOS(id uintptr, tos uint8) error {
	return errno(C.shim_set_tos(C.uintptr_t(id), C.uint8_t(tos)))
}

func (rdmaCore) setAFOnly(id uintptr) error { return errno(C.shim_set_afonly(C.uintptr_t(id))) }

// native is the address for C; nil for none.
func (s *sockaddr) native() *C.uint8_t {
	if *s == (sockaddr{}) {
		return nil
	}
	return (*C.uint8_t)(unsafe.Pointer(s))
}

func (rdmaCore) bind(id uintptr, addr sockaddr) error {
	return errno(C.shim_bind(C.uintptr_t(id), addr.native()))
}

func (rdmaCore) listen(id uintptr, backlog int) error {
	return errno(C.shim_listen(C.uintptr_t(id), C.int(backlog)))
}

func (rdmaCore) resolveAddr(id uintptr, src, dst sockaddr, timeoutMS int) error {
	return errno(C.shim_resolve_addr(C.uintptr_t(id), src.native(), dst.native(), C.int(timeoutMS)))
}

func (rdmaCore) resolveRoute(id uintptr, timeoutMS int) error {
	return errno(C.shim_resolve_route(C.uintptr_t(id), C.int(timeoutMS)))
}

func (rdmaCore) createQP(id, pd uintptr, attr qpAttr) (uintptr, uint32, error) {
	n := attr.native()
	var qp C.uintptr_t
	var num C.uint32_t
	err := errno(C.shim_create_qp(C.uintptr_t(id), C.uintptr_t(pd), &n, &qp, &num))
	return uintptr(qp), uint32(num), err
}

func (rdmaCore) destroyQP(id uintptr) { C.shim_destroy_qp(C.uintptr_t(id)) }

func (p *connRecord) native() (n C.struct_shim_conn) {
	n.responder_resources, n.initiator_depth = C.uint8_t(p.responderResources), C.uint8_t(p.initiatorDepth)
	n.retry_count, n.rnr_retry_count = C.uint8_t(p.retryCount), C.uint8_t(p.rnrRetryCount)
	for i, b := range p.privateData {
		n.private_data[i] = C.uint8_t(b)
	}
	n.private_len = C.uint32_t(len(p.privateData))
	return n
}

func (rdmaCore) connect(id uintptr, p connRecord) error {
	n := p.native()
	return errno(C.shim_connect(C.uintptr_t(id), &n))
}

func (rdmaCore) accept(id uintptr, p connRecord) error {
	n := p.native()
	return errno(C.shim_accept(C.uintptr_t(id), &n))
}

func (rdmaCore) reject(id uintptr, data []byte) error {
	return errno(C.shim_reject(C.uintptr_t(id), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(data))), C.uint32_t(len(data))))
}

func (rdmaCore) disconnect(id uintptr) error { return errno(C.shim_disconnect(C.uintptr_t(id))) }

func (rdmaCore) established(id uintptr) error { return errno(C.shim_established(C.uintptr_t(id))) }
