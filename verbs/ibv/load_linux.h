/* The functions of rdma-core that the shim calls, found at run time. */
#ifndef IBV_LOAD_LINUX_H
#define IBV_LOAD_LINUX_H

#include "abi_linux.h"

/* result, name, arguments: of libibverbs, and of librdmacm. */
#define IBV_FUNCTIONS(F)                                                                         \
	F(int, query_device, (struct abi_context *, struct abi_device_attr *))                     \
	F(int, query_port, (struct abi_context *, uint8_t, struct abi_port_attr *))                \
	F(int, get_async_event, (struct abi_context *, struct abi_async_event *))                  \
	F(void, ack_async_event, (struct abi_async_event *))                                       \
	F(struct abi_pd *, alloc_pd, (struct abi_context *))                                       \
	F(int, dealloc_pd, (struct abi_pd *))                                                      \
	F(struct abi_mr *, reg_mr, (struct abi_pd *, void *, size_t, int))                         \
	F(int, dereg_mr, (struct abi_mr *))                                                        \
	F(struct abi_cq *, create_cq, (struct abi_context *, int, void *, struct abi_comp_channel *, int)) \
	F(int, destroy_cq, (struct abi_cq *))                                                      \
	F(int, get_cq_event, (struct abi_comp_channel *, struct abi_cq **, void **))               \
	F(void, ack_cq_events, (struct abi_cq *, unsigned int))                                    \
	F(struct abi_qp *, create_qp, (struct abi_pd *, struct abi_qp_init_attr *))                \
	F(int, destroy_qp, (struct abi_qp *))                                                      \
	F(int, modify_qp, (struct abi_qp *, struct abi_qp_attr *, int))                            \
	F(int, query_qp, (struct abi_qp *, struct abi_qp_attr *, int, struct abi_qp_init_attr *))

/* Functions that came to libibverbs without a second version. */
#define IBV_FUNCTIONS_1_0(F)                                                                     \
	F(struct abi_comp_channel *, create_comp_channel, (struct abi_context *))                  \
	F(int, destroy_comp_channel, (struct abi_comp_channel *))

#define RDMA_FUNCTIONS(F)                                                                        \
	F(struct abi_context **, get_devices, (int *))                                             \
	F(struct abi_event_channel *, create_event_channel, (void))                                \
	F(int, get_cm_event, (struct abi_event_channel *, struct abi_cm_event **))                 \
	F(int, ack_cm_event, (struct abi_cm_event *))                                              \
	F(int, create_id, (struct abi_event_channel *, struct abi_cm_id **, void *, int))          \
	F(int, destroy_id, (struct abi_cm_id *))                                                   \
	F(int, set_option, (struct abi_cm_id *, int, int, void *, size_t))                         \
	F(int, bind_addr, (struct abi_cm_id *, struct sockaddr *))                                 \
	F(int, listen, (struct abi_cm_id *, int))                                                  \
	F(int, resolve_addr, (struct abi_cm_id *, struct sockaddr *, struct sockaddr *, int))      \
	F(int, resolve_route, (struct abi_cm_id *, int))                                           \
	F(int, create_qp, (struct abi_cm_id *, struct abi_pd *, struct abi_qp_init_attr *))        \
	F(void, destroy_qp, (struct abi_cm_id *))                                                  \
	F(int, connect, (struct abi_cm_id *, struct abi_conn_param *))                             \
	F(int, accept, (struct abi_cm_id *, struct abi_conn_param *))                              \
	F(int, reject, (struct abi_cm_id *, const void *, uint8_t))                                \
	F(int, disconnect, (struct abi_cm_id *))                                                   \
	F(int, notify, (struct abi_cm_id *, int))

#define DECLARE(result, name, args) result(*name) args;
struct ibv_functions {
	IBV_FUNCTIONS(DECLARE)
	IBV_FUNCTIONS_1_0(DECLARE)
};
struct rdma_functions {
	RDMA_FUNCTIONS(DECLARE)
};
#undef DECLARE

extern struct ibv_functions ibv;
extern struct rdma_functions rdma;

/* errno of a function that returned -1 or NULL, never 0. */
int shim_errno(void);
/* The positive errno of a result of either convention: 0, -1 and errno, -errno, errno. */
int shim_result(int rc);

#endif
