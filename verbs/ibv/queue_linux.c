//go:build cgo && !nordma

/* The hot path: posts and polls, many work requests a call. */
#include "load_linux.h"
#include "shim_linux.h"

#include <errno.h>
#include <string.h>

#define CHUNK 32 /* work requests that are built on the stack at a time */

static uint64_t taken(uint32_t n, int err) { return (uint64_t)n << 32 | (uint32_t)err; }

uint64_t shim_post_send(uintptr_t qp_addr, const struct shim_send *in, uint32_t n, struct shim_sge *sges)
{
	struct abi_qp *qp = (struct abi_qp *)qp_addr;
	struct abi_send_wr wrs[CHUNK];
	for (uint32_t done = 0; done < n;) {
		uint32_t k = n - done < CHUNK ? n - done : CHUNK;
		for (uint32_t i = 0; i < k; i++) {
			const struct shim_send *s = &in[done + i];
			wrs[i].wr_id = s->id;
			wrs[i].next = i + 1 < k ? &wrs[i + 1] : NULL;
			wrs[i].sg_list = (struct abi_sge *)&sges[s->sge];
			wrs[i].num_sge = (int)s->sges;
			wrs[i].opcode = s->opcode;
			wrs[i].send_flags = s->flags;
			wrs[i].invalidate_rkey = s->rkey;
			wrs[i].remote_addr = s->remote_addr;
			wrs[i].rkey = s->rkey;
		}
		struct abi_send_wr *bad = NULL;
		int err = shim_result(qp->context->ops.post_send(qp, wrs, &bad));
		/* Without a bad request all are queued, and the doorbell failed. */
		if (err && bad)
			return taken(done + (uint32_t)(bad - wrs), err);
		done += k;
	}
	return taken(n, 0);
}

uint64_t shim_post_recv(uintptr_t qp_addr, const struct shim_recv *in, uint32_t n, struct shim_sge *sges)
{
	struct abi_qp *qp = (struct abi_qp *)qp_addr;
	struct abi_recv_wr wrs[CHUNK];
	for (uint32_t done = 0; done < n;) {
		uint32_t k = n - done < CHUNK ? n - done : CHUNK;
		for (uint32_t i = 0; i < k; i++) {
			const struct shim_recv *r = &in[done + i];
			wrs[i].wr_id = r->id;
			wrs[i].next = i + 1 < k ? &wrs[i + 1] : NULL;
			wrs[i].sg_list = (struct abi_sge *)&sges[r->sge];
			wrs[i].num_sge = (int)r->sges;
		}
		struct abi_recv_wr *bad = NULL;
		int err = shim_result(qp->context->ops.post_recv(qp, wrs, &bad));
		if (err && bad)
			return taken(done + (uint32_t)(bad - wrs), err);
		done += k;
	}
	return taken(n, 0);
}

int shim_poll(uintptr_t cq_addr, struct shim_wc *out, uint32_t most)
{
	struct abi_cq *cq = (struct abi_cq *)cq_addr;
	struct abi_wc wcs[CHUNK];
	uint32_t done = 0;
	while (done < most) {
		int want = most - done < CHUNK ? (int)(most - done) : CHUNK;
		int got = cq->context->ops.poll_cq(cq, want, wcs);
		if (got < 0)
			return done ? (int)done : -shim_result(got);
		for (int i = 0; i < got; i++) {
			struct shim_wc *o = &out[done + i];
			o->id = wcs[i].wr_id;
			o->byte_len = wcs[i].byte_len;
			o->qp_num = wcs[i].qp_num;
			o->vendor_err = wcs[i].vendor_err;
			o->invalidated_rkey = wcs[i].invalidated_rkey;
			o->status = (uint8_t)wcs[i].status;
			o->opcode = (uint8_t)wcs[i].opcode;
			o->flags = (uint16_t)wcs[i].wc_flags;
		}
		done += (uint32_t)got;
		if (got < want)
			break;
	}
	return (int)done;
}

int shim_req_notify(uintptr_t cq_addr)
{
	struct abi_cq *cq = (struct abi_cq *)cq_addr;
	return shim_result(cq->context->ops.req_notify_cq(cq, 0));
}

int shim_cq_event(uintptr_t channel)
{
	struct abi_cq *cq;
	void *context;
	if (ibv.get_cq_event((struct abi_comp_channel *)channel, &cq, &context))
		return shim_errno();
	ibv.ack_cq_events(cq, 1);
	return 0;
}
