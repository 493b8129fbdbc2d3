//go:build cgo && !nordma

/* Connections. */
#include "load_linux.h"
#include "shim_linux.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static struct abi_cm_id *cm_id(uintptr_t id) { return (struct abi_cm_id *)id; }

int shim_create_event_channel(uintptr_t *channel, int32_t *fd)
{
	struct abi_event_channel *c = rdma.create_event_channel();
	if (!c)
		return shim_errno();
	int flags = fcntl(c->fd, F_GETFL);
	if (flags < 0 || fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return shim_errno();
	*channel = (uintptr_t)c;
	*fd = c->fd;
	return 0;
}

int shim_cm_event(uintptr_t channel, struct shim_cm_event *out)
{
	struct abi_cm_event *e;
	if (rdma.get_cm_event((struct abi_event_channel *)channel, &e))
		return shim_errno();
	memset(out, 0, offsetof(struct shim_cm_event, conn.private_data));
	/* The context of a request is, at first, that of its listener. */
	out->handle = (uint64_t)(uintptr_t)e->id->context;
	out->id = (uintptr_t)e->id;
	out->event = e->event;
	out->status = e->status;
	out->conn.responder_resources = e->conn.responder_resources;
	out->conn.initiator_depth = e->conn.initiator_depth;
	if (e->conn.private_data && e->conn.private_data_len) {
		out->conn.private_len = e->conn.private_data_len;
		memcpy(out->conn.private_data, e->conn.private_data, e->conn.private_data_len);
	}
	rdma.ack_cm_event(e);
	return 0;
}

int shim_create_id(uintptr_t channel, uint64_t handle, uintptr_t *id)
{
	struct abi_cm_id *i;
	if (rdma.create_id((struct abi_event_channel *)channel, &i, (void *)(uintptr_t)handle, ABI_PS_TCP))
		return shim_errno();
	*id = (uintptr_t)i;
	return 0;
}

void shim_set_handle(uintptr_t id, uint64_t handle) { cm_id(id)->context = (void *)(uintptr_t)handle; }

int shim_destroy_id(uintptr_t id) { return shim_result(rdma.destroy_id(cm_id(id))); }

void shim_query_id(uintptr_t id, struct shim_id *out)
{
	memset(out, 0, sizeof(*out));
	out->context = (uintptr_t)cm_id(id)->verbs;
	out->port = cm_id(id)->port_num;
	memcpy(out->src, &cm_id(id)->src_addr, sizeof(out->src));
	memcpy(out->dst, &cm_id(id)->dst_addr, sizeof(out->dst));
}

int shim_set_tos(uintptr_t id, uint8_t tos)
{
	return shim_result(rdma.set_option(cm_id(id), ABI_OPTION_ID, ABI_OPTION_ID_TOS, &tos, sizeof(tos)));
}

int shim_set_afonly(uintptr_t id)
{
	int on = 1;
	return shim_result(rdma.set_option(cm_id(id), ABI_OPTION_ID, ABI_OPTION_ID_AFONLY, &on, sizeof(on)));
}

/* storage copies an address, as the libraries take no const one. */
static struct sockaddr *storage(struct sockaddr_storage *s, const uint8_t *addr)
{
	if (!addr)
		return NULL;
	memcpy(s, addr, sizeof(*s));
	return (struct sockaddr *)s;
}

int shim_bind(uintptr_t id, const uint8_t *addr)
{
	struct sockaddr_storage s;
	return shim_result(rdma.bind_addr(cm_id(id), storage(&s, addr)));
}

int shim_listen(uintptr_t id, int backlog) { return shim_result(rdma.listen(cm_id(id), backlog)); }

int shim_resolve_addr(uintptr_t id, const uint8_t *src, const uint8_t *dst, int timeout_ms)
{
	struct sockaddr_storage s, d;
	return shim_result(rdma.resolve_addr(cm_id(id), storage(&s, src), storage(&d, dst), timeout_ms));
}

int shim_resolve_route(uintptr_t id, int timeout_ms) { return shim_result(rdma.resolve_route(cm_id(id), timeout_ms)); }

static void conn_param(struct abi_conn_param *out, const struct shim_conn *in)
{
	memset(out, 0, sizeof(*out));
	out->private_data = in->private_len ? in->private_data : NULL;
	out->private_data_len = (uint8_t)in->private_len;
	out->responder_resources = in->responder_resources;
	out->initiator_depth = in->initiator_depth;
	out->retry_count = in->retry_count;
	out->rnr_retry_count = in->rnr_retry_count;
	out->flow_control = 1;
}

int shim_connect(uintptr_t id, const struct shim_conn *p)
{
	struct abi_conn_param param;
	conn_param(&param, p);
	return shim_result(rdma.connect(cm_id(id), &param));
}

int shim_accept(uintptr_t id, const struct shim_conn *p)
{
	struct abi_conn_param param;
	conn_param(&param, p);
	return shim_result(rdma.accept(cm_id(id), &param));
}

int shim_reject(uintptr_t id, const uint8_t *data, uint32_t n)
{
	return shim_result(rdma.reject(cm_id(id), n ? data : NULL, (uint8_t)n));
}

int shim_disconnect(uintptr_t id) { return shim_result(rdma.disconnect(cm_id(id))); }

int shim_established(uintptr_t id) { return shim_result(rdma.notify(cm_id(id), ABI_EVENT_COMM_EST)); }
