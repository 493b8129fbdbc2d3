//go:build cgo && !nordma

/*
 * Compares abi_linux.h with rdma-core's headers, where they are installed: a
 * difference is an error of the compiler. IBV_WITHOUT_HEADERS is for the test that
 * builds as if they were not.
 */
#include "abi_linux.h"

#if defined(__has_include) && !defined(IBV_WITHOUT_HEADERS)
#if __has_include(<infiniband/verbs.h>) && __has_include(<rdma/rdma_cma.h>)
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define SAME(abi, afield, real, rfield)                                                          \
	_Static_assert(offsetof(struct abi, afield) == offsetof(struct real, rfield), #real "." #rfield); \
	_Static_assert(sizeof(((struct abi *)0)->afield) == sizeof(((struct real *)0)->rfield), #real "." #rfield " size")
#define FIELD(abi, real, field) SAME(abi, field, real, field)
#define ROOM(abi, real) _Static_assert(sizeof(struct abi) >= sizeof(struct real), "room for " #real)
#define EXACT(abi, real) _Static_assert(sizeof(struct abi) == sizeof(struct real), "size of " #real)
#define VALUE(abi, real) _Static_assert((int)(abi) == (int)(real), #real)

FIELD(abi_device, ibv_device, node_type);
FIELD(abi_device, ibv_device, transport_type);
FIELD(abi_device, ibv_device, name);
FIELD(abi_device, ibv_device, dev_name);
VALUE(ABI_TRANSPORT_IWARP, IBV_TRANSPORT_IWARP);

FIELD(abi_context_ops, ibv_context_ops, poll_cq);
FIELD(abi_context_ops, ibv_context_ops, req_notify_cq);
FIELD(abi_context_ops, ibv_context_ops, post_send);
FIELD(abi_context_ops, ibv_context_ops, post_recv);
EXACT(abi_context_ops, ibv_context_ops);
FIELD(abi_context, ibv_context, device);
FIELD(abi_context, ibv_context, ops);
FIELD(abi_context, ibv_context, cmd_fd);
FIELD(abi_context, ibv_context, async_fd);

FIELD(abi_device_attr, ibv_device_attr, max_mr_size);
FIELD(abi_device_attr, ibv_device_attr, max_qp_wr);
FIELD(abi_device_attr, ibv_device_attr, device_cap_flags);
FIELD(abi_device_attr, ibv_device_attr, max_sge);
FIELD(abi_device_attr, ibv_device_attr, max_sge_rd);
FIELD(abi_device_attr, ibv_device_attr, max_cqe);
FIELD(abi_device_attr, ibv_device_attr, max_mr);
FIELD(abi_device_attr, ibv_device_attr, max_qp_rd_atom);
FIELD(abi_device_attr, ibv_device_attr, max_qp_init_rd_atom);
ROOM(abi_device_attr, ibv_device_attr);
VALUE(ABI_DEVICE_MEM_MGT_EXTENSIONS, IBV_DEVICE_MEM_MGT_EXTENSIONS);

FIELD(abi_port_attr, ibv_port_attr, state);
FIELD(abi_port_attr, ibv_port_attr, active_mtu);
FIELD(abi_port_attr, ibv_port_attr, max_msg_sz);
ROOM(abi_port_attr, ibv_port_attr);

FIELD(abi_pd, ibv_pd, context);
FIELD(abi_mr, ibv_mr, lkey);
FIELD(abi_mr, ibv_mr, rkey);
FIELD(abi_comp_channel, ibv_comp_channel, fd);
FIELD(abi_cq, ibv_cq, context);
FIELD(abi_cq, ibv_cq, channel);
FIELD(abi_cq, ibv_cq, cq_context);
FIELD(abi_cq, ibv_cq, cqe);

EXACT(abi_qp_cap, ibv_qp_cap);
FIELD(abi_qp_cap, ibv_qp_cap, max_inline_data);
FIELD(abi_qp_init_attr, ibv_qp_init_attr, recv_cq);
FIELD(abi_qp_init_attr, ibv_qp_init_attr, cap);
FIELD(abi_qp_init_attr, ibv_qp_init_attr, qp_type);
FIELD(abi_qp_init_attr, ibv_qp_init_attr, sq_sig_all);
EXACT(abi_qp_init_attr, ibv_qp_init_attr);
VALUE(ABI_QPT_RC, IBV_QPT_RC);
FIELD(abi_qp, ibv_qp, qp_context);
FIELD(abi_qp, ibv_qp, qp_num);
FIELD(abi_qp_attr, ibv_qp_attr, qp_state);
ROOM(abi_qp_attr, ibv_qp_attr);
VALUE(ABI_QP_STATE, IBV_QP_STATE);
VALUE(ABI_QPS_ERR, IBV_QPS_ERR);

EXACT(abi_sge, ibv_sge);
FIELD(abi_sge, ibv_sge, length);
FIELD(abi_sge, ibv_sge, lkey);
FIELD(abi_send_wr, ibv_send_wr, next);
FIELD(abi_send_wr, ibv_send_wr, sg_list);
FIELD(abi_send_wr, ibv_send_wr, num_sge);
FIELD(abi_send_wr, ibv_send_wr, opcode);
FIELD(abi_send_wr, ibv_send_wr, send_flags);
FIELD(abi_send_wr, ibv_send_wr, invalidate_rkey);
SAME(abi_send_wr, remote_addr, ibv_send_wr, wr.rdma.remote_addr);
SAME(abi_send_wr, rkey, ibv_send_wr, wr.rdma.rkey);
ROOM(abi_send_wr, ibv_send_wr);
FIELD(abi_recv_wr, ibv_recv_wr, sg_list);
FIELD(abi_recv_wr, ibv_recv_wr, num_sge);
ROOM(abi_recv_wr, ibv_recv_wr);
VALUE(ABI_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE);
VALUE(ABI_WR_SEND, IBV_WR_SEND);
VALUE(ABI_WR_RDMA_READ, IBV_WR_RDMA_READ);
VALUE(ABI_WR_SEND_WITH_INV, IBV_WR_SEND_WITH_INV);

FIELD(abi_wc, ibv_wc, status);
FIELD(abi_wc, ibv_wc, opcode);
FIELD(abi_wc, ibv_wc, vendor_err);
FIELD(abi_wc, ibv_wc, byte_len);
FIELD(abi_wc, ibv_wc, invalidated_rkey);
FIELD(abi_wc, ibv_wc, qp_num);
FIELD(abi_wc, ibv_wc, wc_flags);
EXACT(abi_wc, ibv_wc);
VALUE(ABI_WC_SEND, IBV_WC_SEND);
VALUE(ABI_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE);
VALUE(ABI_WC_RDMA_READ, IBV_WC_RDMA_READ);
VALUE(ABI_WC_RECV, IBV_WC_RECV);
VALUE(ABI_WC_WITH_INV, IBV_WC_WITH_INV);

FIELD(abi_async_event, ibv_async_event, element);
FIELD(abi_async_event, ibv_async_event, event_type);
EXACT(abi_async_event, ibv_async_event);
VALUE(ABI_EVENT_CQ_ERR, IBV_EVENT_CQ_ERR);
VALUE(ABI_EVENT_QP_FATAL, IBV_EVENT_QP_FATAL);
VALUE(ABI_EVENT_COMM_EST, IBV_EVENT_COMM_EST);
VALUE(ABI_EVENT_PATH_MIG_ERR, IBV_EVENT_PATH_MIG_ERR);
VALUE(ABI_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_QP_LAST_WQE_REACHED);

FIELD(abi_event_channel, rdma_event_channel, fd);
FIELD(abi_cm_id, rdma_cm_id, verbs);
FIELD(abi_cm_id, rdma_cm_id, context);
FIELD(abi_cm_id, rdma_cm_id, qp);
SAME(abi_cm_id, src_addr, rdma_cm_id, route.addr.src_storage);
SAME(abi_cm_id, dst_addr, rdma_cm_id, route.addr.dst_storage);
FIELD(abi_cm_id, rdma_cm_id, port_num);
VALUE(ABI_PS_TCP, RDMA_PS_TCP);
VALUE(ABI_OPTION_ID, RDMA_OPTION_ID);
VALUE(ABI_OPTION_ID_TOS, RDMA_OPTION_ID_TOS);
VALUE(ABI_OPTION_ID_AFONLY, RDMA_OPTION_ID_AFONLY);
FIELD(abi_conn_param, rdma_conn_param, private_data_len);
FIELD(abi_conn_param, rdma_conn_param, responder_resources);
FIELD(abi_conn_param, rdma_conn_param, initiator_depth);
FIELD(abi_conn_param, rdma_conn_param, retry_count);
FIELD(abi_conn_param, rdma_conn_param, rnr_retry_count);
FIELD(abi_conn_param, rdma_conn_param, qp_num);
EXACT(abi_conn_param, rdma_conn_param);
FIELD(abi_cm_event, rdma_cm_event, listen_id);
FIELD(abi_cm_event, rdma_cm_event, event);
FIELD(abi_cm_event, rdma_cm_event, status);
SAME(abi_cm_event, conn, rdma_cm_event, param.conn);

#endif
#endif
