//go:build cgo && !nordma

/* Devices and their objects. */
#include "load_linux.h"
#include "shim_linux.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* nonblocking makes the library's descriptor one that is read without waiting. */
static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return shim_errno();
	return 0;
}

int shim_devices(uintptr_t *contexts, uint32_t most)
{
	int n = 0;
	/* The list is never freed: it is what keeps the contexts open. */
	errno = 0; /* not all failures set it */
	struct abi_context **list = rdma.get_devices(&n);
	if (!list)
		return -shim_errno();
	if ((uint32_t)n > most)
		n = (int)most;
	for (int i = 0; i < n; i++)
		contexts[i] = (uintptr_t)list[i];
	return n;
}

int shim_query_device(uintptr_t context, struct shim_device *out)
{
	struct abi_context *c = (struct abi_context *)context;
	struct abi_device_attr a;
	memset(&a, 0, sizeof(a));
	int err = shim_result(ibv.query_device(c, &a));
	if (err)
		return err;
	if ((err = nonblocking(c->async_fd)))
		return err;
	memset(out, 0, sizeof(*out));
	out->max_mr_size = a.max_mr_size;
	out->max_qp_wr = (uint32_t)a.max_qp_wr;
	out->max_sge = (uint32_t)a.max_sge;
	out->max_sge_rd = (uint32_t)a.max_sge_rd;
	out->max_cqe = (uint32_t)a.max_cqe;
	out->max_mr = (uint32_t)a.max_mr;
	out->max_qp_rd_atom = (uint32_t)a.max_qp_rd_atom;
	out->max_qp_init_rd_atom = (uint32_t)a.max_qp_init_rd_atom;
	out->send_with_inv = (a.device_cap_flags & ABI_DEVICE_MEM_MGT_EXTENSIONS) != 0;
	out->iwarp = c->device->transport_type == ABI_TRANSPORT_IWARP;
	out->vendor_id = a.vendor_id;
	out->async_fd = c->async_fd;
	out->cmd_fd = c->cmd_fd;
	memcpy(out->name, c->device->name, sizeof(out->name) - 1);
	return 0;
}

uint32_t shim_port_mtu(uintptr_t context, uint8_t port)
{
	struct abi_port_attr a;
	memset(&a, 0, sizeof(a));
	if (ibv.query_port((struct abi_context *)context, port, &a) || a.active_mtu < 1 || a.active_mtu > 5)
		return 0;
	return 128u << a.active_mtu; /* ibv_mtu: 1 is 256 */
}

int shim_async_event(uintptr_t context, int32_t *type, uint64_t *handle)
{
	struct abi_async_event e;
	memset(&e, 0, sizeof(e));
	if (ibv.get_async_event((struct abi_context *)context, &e))
		return shim_errno();
	*type = e.event_type;
	*handle = 0;
	if (e.event_type == ABI_EVENT_CQ_ERR)
		*handle = (uint64_t)(uintptr_t)e.element.cq->cq_context;
	else if ((e.event_type >= ABI_EVENT_QP_FATAL && e.event_type <= ABI_EVENT_PATH_MIG_ERR) || e.event_type == ABI_EVENT_QP_LAST_WQE_REACHED)
		*handle = (uint64_t)(uintptr_t)e.element.qp->qp_context;
	ibv.ack_async_event(&e);
	return 0;
}

int shim_alloc_pd(uintptr_t context, uintptr_t *pd)
{
	errno = 0; /* not all failures set it */
	*pd = (uintptr_t)ibv.alloc_pd((struct abi_context *)context);
	return *pd ? 0 : shim_errno();
}

int shim_dealloc_pd(uintptr_t pd) { return shim_result(ibv.dealloc_pd((struct abi_pd *)pd)); }

int shim_reg_mr(uintptr_t pd, uint64_t addr, uint64_t length, uint32_t access, uintptr_t *mr, uint32_t *lkey, uint32_t *rkey)
{
	errno = 0; /* not all failures set it */
	struct abi_mr *m = ibv.reg_mr((struct abi_pd *)pd, (void *)(uintptr_t)addr, length, (int)access);
	if (!m)
		return shim_errno();
	*mr = (uintptr_t)m;
	*lkey = m->lkey;
	*rkey = m->rkey;
	return 0;
}

int shim_dereg_mr(uintptr_t mr) { return shim_result(ibv.dereg_mr((struct abi_mr *)mr)); }

int shim_create_channel(uintptr_t context, uintptr_t *channel, int32_t *fd)
{
	errno = 0; /* not all failures set it */
	struct abi_comp_channel *c = ibv.create_comp_channel((struct abi_context *)context);
	if (!c)
		return shim_errno();
	int err = nonblocking(c->fd);
	if (err) {
		ibv.destroy_comp_channel(c);
		return err;
	}
	*channel = (uintptr_t)c;
	*fd = c->fd;
	return 0;
}

int shim_destroy_channel(uintptr_t channel)
{
	return shim_result(ibv.destroy_comp_channel((struct abi_comp_channel *)channel));
}

int shim_create_cq(uintptr_t context, uint32_t depth, uint64_t handle, uintptr_t channel, uintptr_t *cq)
{
	errno = 0; /* not all failures set it */
	*cq = (uintptr_t)ibv.create_cq((struct abi_context *)context, (int)depth, (void *)(uintptr_t)handle, (struct abi_comp_channel *)channel, 0);
	return *cq ? 0 : shim_errno();
}

int shim_destroy_cq(uintptr_t cq) { return shim_result(ibv.destroy_cq((struct abi_cq *)cq)); }

static void init_attr(struct abi_qp_init_attr *out, const struct shim_qp_attr *in)
{
	memset(out, 0, sizeof(*out));
	out->qp_context = (void *)(uintptr_t)in->handle;
	out->send_cq = (struct abi_cq *)in->send_cq;
	out->recv_cq = (struct abi_cq *)in->recv_cq;
	out->cap.max_send_wr = in->max_send_wr;
	out->cap.max_recv_wr = in->max_recv_wr;
	out->cap.max_send_sge = in->max_send_sge;
	out->cap.max_recv_sge = in->max_recv_sge;
	out->cap.max_inline_data = in->max_inline;
	out->qp_type = ABI_QPT_RC;
	out->sq_sig_all = (int)in->sig_all;
}

int shim_try_qp(uintptr_t pd, const struct shim_qp_attr *attr, uint32_t *max_inline)
{
	struct abi_qp_init_attr a;
	init_attr(&a, attr);
	errno = 0; /* not all failures set it */
	struct abi_qp *qp = ibv.create_qp((struct abi_pd *)pd, &a);
	if (!qp)
		return shim_errno();
	*max_inline = a.cap.max_inline_data;
	return shim_result(ibv.destroy_qp(qp));
}

int shim_create_qp(uintptr_t id_addr, uintptr_t pd, const struct shim_qp_attr *attr, uintptr_t *qp, uint32_t *qp_num)
{
	struct abi_cm_id *id = (struct abi_cm_id *)id_addr;
	struct abi_qp_init_attr a;
	init_attr(&a, attr);
	errno = 0; /* not all failures set it */
	if (rdma.create_qp(id, (struct abi_pd *)pd, &a))
		return shim_errno();
	*qp = (uintptr_t)id->qp;
	*qp_num = id->qp->qp_num;
	return 0;
}

void shim_destroy_qp(uintptr_t id) { rdma.destroy_qp((struct abi_cm_id *)id); }

int shim_qp_error(uintptr_t qp)
{
	struct abi_qp_attr a;
	memset(&a, 0, sizeof(a));
	a.qp_state = ABI_QPS_ERR;
	return shim_result(ibv.modify_qp((struct abi_qp *)qp, &a, ABI_QP_STATE));
}

int shim_qp_state(uintptr_t qp)
{
	struct abi_qp_attr a;
	struct abi_qp_init_attr init;
	memset(&a, 0, sizeof(a));
	int err = shim_result(ibv.query_qp((struct abi_qp *)qp, &a, ABI_QP_STATE, &init));
	return err ? -err : a.qp_state;
}
