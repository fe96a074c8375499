// The forms for the per-thread default stream of the entry points that graphs/ has.
#include "capture.h"

using client::PerThreadDefault;

extern "C" {

CUresult cuStreamBeginCapture_ptsz(CUstream hStream) {
    const PerThreadDefault own;
    return cuStreamBeginCapture(hStream);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) {
    const PerThreadDefault own;
    return cuStreamBeginCapture_v2(hStream, mode);
}
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                          CUstreamCaptureMode mode) {
    const PerThreadDefault own;
    return cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
}
CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph* phGraph) {
    const PerThreadDefault own;
    return cuStreamEndCapture(hStream, phGraph);
}
CUresult cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    const PerThreadDefault own;
    return cuStreamIsCapturing(hStream, captureStatus);
}
CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                     cuuint64_t* id_out) {
    const PerThreadDefault own;
    return cuStreamGetCaptureInfo(hStream, captureStatus_out, id_out);
}
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out, size_t* numDependencies_out) {
    const PerThreadDefault own;
    return cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                                     numDependencies_out);
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
    const PerThreadDefault own;
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                                     edgeData_out, numDependencies_out);
}
CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream hStream, CUgraphNode* dependencies,
                                                size_t numDependencies, unsigned int flags) {
    const PerThreadDefault own;
    return cuStreamUpdateCaptureDependencies(hStream, dependencies, numDependencies, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream, CUgraphNode* dependencies,
                                                   const CUgraphEdgeData* dependencyData,
                                                   size_t numDependencies, unsigned int flags) {
    const PerThreadDefault own;
    return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, dependencyData, numDependencies,
                                                flags);
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    const PerThreadDefault own;
    return cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
}
CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    const PerThreadDefault own;
    return cuGraphUpload(hGraphExec, hStream);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    const PerThreadDefault own;
    return cuGraphLaunch(hGraphExec, hStream);
}
}
