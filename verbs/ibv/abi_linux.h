/*
 * The binary interface of libibverbs (IBVERBS_1.1) and librdmacm (RDMACM_1.0),
 * as far as the shim uses it. It has been frozen since 2005, and both libraries
 * version their symbols to keep it so. It is declared here so that programs are
 * built the same on machines with and without rdma-core's headers;
 * abi_check_linux.c compares it with them where they are.
 *
 * Structures that the libraries write are at least as large here as there.
 */
#ifndef IBV_ABI_LINUX_H
#define IBV_ABI_LINUX_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct abi_cq;
struct abi_qp;
struct abi_wc;
struct abi_send_wr;
struct abi_recv_wr;

struct abi_device { /* ibv_device */
	void *ops[2];
	int node_type;
	int transport_type;
	char name[64];
	char dev_name[64];
};

enum { ABI_TRANSPORT_IWARP = 1 };

struct abi_context_ops { /* ibv_context_ops; what is not used is void * */
	void *before_poll[11];
	int (*poll_cq)(struct abi_cq *, int, struct abi_wc *);
	int (*req_notify_cq)(struct abi_cq *, int);
	void *before_post[12];
	int (*post_send)(struct abi_qp *, struct abi_send_wr *, struct abi_send_wr **);
	int (*post_recv)(struct abi_qp *, struct abi_recv_wr *, struct abi_recv_wr **);
	void *after[5];
};

struct abi_context { /* ibv_context */
	struct abi_device *device;
	struct abi_context_ops ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
};

struct abi_device_attr { /* ibv_device_attr */
	char fw_ver[64];
	uint64_t node_guid;
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	unsigned int device_cap_flags;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	char rest[256];
};

enum { ABI_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21 };

struct abi_port_attr { /* ibv_port_attr */
	int state;
	int max_mtu;
	int active_mtu;
	int gid_tbl_len;
	uint32_t port_cap_flags;
	uint32_t max_msg_sz;
	char rest[64];
};

struct abi_pd { /* ibv_pd */
	struct abi_context *context;
};

struct abi_mr { /* ibv_mr */
	struct abi_context *context;
	struct abi_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct abi_comp_channel { /* ibv_comp_channel */
	struct abi_context *context;
	int fd;
};

struct abi_cq { /* ibv_cq */
	struct abi_context *context;
	struct abi_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
};

struct abi_qp_cap { /* ibv_qp_cap */
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};

struct abi_qp_init_attr { /* ibv_qp_init_attr */
	void *qp_context;
	struct abi_cq *send_cq;
	struct abi_cq *recv_cq;
	void *srq;
	struct abi_qp_cap cap;
	int qp_type;
	int sq_sig_all;
};

enum { ABI_QPT_RC = 2 };

struct abi_qp { /* ibv_qp */
	struct abi_context *context;
	void *qp_context;
	struct abi_pd *pd;
	struct abi_cq *send_cq;
	struct abi_cq *recv_cq;
	void *srq;
	uint32_t handle;
	uint32_t qp_num;
};

struct abi_qp_attr { /* ibv_qp_attr */
	int qp_state;
	char rest[508];
};

enum { ABI_QP_STATE = 1 << 0, ABI_QPS_ERR = 6 };

struct abi_sge { /* ibv_sge */
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct abi_send_wr { /* ibv_send_wr */
	uint64_t wr_id;
	struct abi_send_wr *next;
	struct abi_sge *sg_list;
	int num_sge;
	int opcode;
	unsigned int send_flags;
	uint32_t invalidate_rkey;
	uint64_t remote_addr;
	uint32_t rkey;
	char rest[76];
};

struct abi_recv_wr { /* ibv_recv_wr */
	uint64_t wr_id;
	struct abi_recv_wr *next;
	struct abi_sge *sg_list;
	int num_sge;
};

enum { ABI_WR_RDMA_WRITE = 0, ABI_WR_SEND = 2, ABI_WR_RDMA_READ = 4, ABI_WR_SEND_WITH_INV = 9 };

struct abi_wc { /* ibv_wc */
	uint64_t wr_id;
	int status;
	int opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t invalidated_rkey;
	uint32_t qp_num;
	uint32_t src_qp;
	unsigned int wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

enum { ABI_WC_SEND = 0, ABI_WC_RDMA_WRITE = 1, ABI_WC_RDMA_READ = 2, ABI_WC_RECV = 1 << 7, ABI_WC_WITH_INV = 1 << 3 };

struct abi_async_event { /* ibv_async_event */
	union {
		struct abi_cq *cq;
		struct abi_qp *qp;
		int port_num;
	} element;
	int event_type;
};

enum { /* ibv_event_type */
	ABI_EVENT_CQ_ERR,
	ABI_EVENT_QP_FATAL,
	ABI_EVENT_QP_REQ_ERR,
	ABI_EVENT_QP_ACCESS_ERR,
	ABI_EVENT_COMM_EST,
	ABI_EVENT_SQ_DRAINED,
	ABI_EVENT_PATH_MIG,
	ABI_EVENT_PATH_MIG_ERR,
	ABI_EVENT_QP_LAST_WQE_REACHED = 16,
};

struct abi_event_channel { /* rdma_event_channel */
	int fd;
};

struct abi_cm_id { /* rdma_cm_id */
	struct abi_context *verbs;
	struct abi_event_channel *channel;
	void *context;
	struct abi_qp *qp;
	struct sockaddr_storage src_addr; /* route.addr */
	struct sockaddr_storage dst_addr;
	struct {
		uint64_t sgid[2];
		uint64_t dgid[2];
		uint16_t pkey;
	} ib_addr;
	struct {
		void *path_rec;
		int num_paths;
	} paths;
	int ps;
	uint8_t port_num;
};

enum { ABI_PS_TCP = 0x0106, ABI_OPTION_ID = 0, ABI_OPTION_ID_TOS = 0, ABI_OPTION_ID_AFONLY = 2 };

struct abi_conn_param { /* rdma_conn_param */
	const void *private_data;
	uint8_t private_data_len;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint32_t qp_num;
};

struct abi_cm_event { /* rdma_cm_event */
	struct abi_cm_id *id;
	struct abi_cm_id *listen_id;
	int event;
	int status;
	struct abi_conn_param conn;
};

#endif
