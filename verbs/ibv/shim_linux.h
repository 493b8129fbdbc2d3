/*
 * What Go calls. Objects of the libraries are addresses; work requests,
 * completions and events are flat records without pointers, so that Go memory
 * can be handed over as it is. Functions return 0 or a positive errno unless
 * they say otherwise, and none of them waits.
 */
#ifndef IBV_SHIM_LINUX_H
#define IBV_SHIM_LINUX_H

#include <stdint.h>

/* Loads the libraries once. Returns the name of the library or function that is
 * missing, or NULL; why, if not NULL, gets the loader's words. */
const char *shim_load(const char **why);

/* ---- work requests and completions ---- */

struct shim_sge { /* as ibv_sge */
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct shim_send {
	uint64_t id;
	uint64_t remote_addr;
	uint32_t rkey; /* or the key to invalidate */
	uint32_t sge;  /* the first one's index */
	uint32_t sges;
	uint16_t opcode; /* ibv_wr_opcode */
	uint16_t flags;  /* ibv_send_flags */
};

struct shim_recv {
	uint64_t id;
	uint32_t sge;
	uint32_t sges;
};

struct shim_wc {
	uint64_t id;
	uint32_t byte_len;
	uint32_t qp_num;
	uint32_t vendor_err;
	uint32_t invalidated_rkey;
	uint8_t status;
	uint8_t opcode; /* ibv_wc_opcode */
	uint16_t flags; /* ibv_wc_flags */
	uint32_t pad;
};

/* Posts n requests. The result is how many the device took, shifted left by 32,
 * and the errno for the next one. */
uint64_t shim_post_send(uintptr_t qp, const struct shim_send *wrs, uint32_t n, struct shim_sge *sges);
uint64_t shim_post_recv(uintptr_t qp, const struct shim_recv *wrs, uint32_t n, struct shim_sge *sges);
/* Takes up to n completions, and returns how many, or a negative errno. */
int shim_poll(uintptr_t cq, struct shim_wc *out, uint32_t n);
int shim_req_notify(uintptr_t cq);
/* Takes one event from a CQ's channel: 0, or EAGAIN. */
int shim_cq_event(uintptr_t channel);

/* ---- devices ---- */

struct shim_device {
	uint64_t max_mr_size;
	uint32_t max_qp_wr, max_sge, max_sge_rd, max_cqe, max_mr;
	uint32_t max_qp_rd_atom, max_qp_init_rd_atom;
	uint32_t send_with_inv; /* bool */
	uint32_t iwarp;         /* bool */
	uint32_t vendor_id;
	int32_t async_fd, cmd_fd;
	char name[64];
};

/* The contexts of all devices, each open as long as the process lives: how many,
 * or a negative errno. */
int shim_devices(uintptr_t *contexts, uint32_t most);
int shim_query_device(uintptr_t context, struct shim_device *out);
/* The active MTU in bytes; 0 when it can't be asked. */
uint32_t shim_port_mtu(uintptr_t context, uint8_t port);
/* Takes one asynchronous event: 0, or an errno. handle is the qp_context or
 * cq_context of its object. */
int shim_async_event(uintptr_t context, int32_t *type, uint64_t *handle);

int shim_alloc_pd(uintptr_t context, uintptr_t *pd);
int shim_dealloc_pd(uintptr_t pd);
int shim_reg_mr(uintptr_t pd, uint64_t addr, uint64_t length, uint32_t access, uintptr_t *mr, uint32_t *lkey, uint32_t *rkey);
int shim_dereg_mr(uintptr_t mr);
int shim_create_channel(uintptr_t context, uintptr_t *channel, int32_t *fd);
int shim_destroy_channel(uintptr_t channel);
int shim_create_cq(uintptr_t context, uint32_t depth, uint64_t handle, uintptr_t channel, uintptr_t *cq);
int shim_destroy_cq(uintptr_t cq);

struct shim_qp_attr {
	uintptr_t send_cq, recv_cq;
	uint64_t handle;
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t sig_all; /* bool */
};

/* Says whether the device can make such a QP, and unmakes it. max_inline is what
 * the device gave. */
int shim_try_qp(uintptr_t pd, const struct shim_qp_attr *attr, uint32_t *max_inline);
int shim_qp_error(uintptr_t qp);
/* The QP's state, or a negative errno. */
int shim_qp_state(uintptr_t qp);

/* ---- connections ---- */

struct shim_conn {
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint32_t private_len;
	uint8_t private_data[256];
};

struct shim_cm_event {
	uint64_t handle; /* of the CMID, or of the listener for a request */
	uintptr_t id;    /* of the request */
	int32_t event, status;
	struct shim_conn conn;
};

struct shim_id {
	uintptr_t context; /* of the device, or 0 */
	uint32_t port;
	uint32_t pad;
	uint8_t src[128], dst[128]; /* struct sockaddr_storage */
};

int shim_create_event_channel(uintptr_t *channel, int32_t *fd);
int shim_cm_event(uintptr_t channel, struct shim_cm_event *out); /* or EAGAIN */
int shim_create_id(uintptr_t channel, uint64_t handle, uintptr_t *id);
void shim_set_handle(uintptr_t id, uint64_t handle);
int shim_destroy_id(uintptr_t id);
void shim_query_id(uintptr_t id, struct shim_id *out);
int shim_set_tos(uintptr_t id, uint8_t tos);
/* An IPv6 address of the id means IPv6 alone. */
int shim_set_afonly(uintptr_t id);
int shim_bind(uintptr_t id, const uint8_t *addr);
int shim_listen(uintptr_t id, int backlog);
int shim_resolve_addr(uintptr_t id, const uint8_t *src, const uint8_t *dst, int timeout_ms);
int shim_resolve_route(uintptr_t id, int timeout_ms);
int shim_create_qp(uintptr_t id, uintptr_t pd, const struct shim_qp_attr *attr, uintptr_t *qp, uint32_t *qp_num);
void shim_destroy_qp(uintptr_t id);
int shim_connect(uintptr_t id, const struct shim_conn *p);
int shim_accept(uintptr_t id, const struct shim_conn *p);
int shim_reject(uintptr_t id, const uint8_t *data, uint32_t n);
int shim_disconnect(uintptr_t id);
int shim_established(uintptr_t id);

#endif
